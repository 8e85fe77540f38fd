use tidegate_runtime::Concurrency;
use tidegate_testkit::Order;

use crate::support::World;

/// P43, P50, P32
#[tokio::test(start_paused = true)]
async fn blocking_calls_keep_the_order_and_their_failures_are_diverted() {
    let world = World::with_numbers(2, 200);
    let flow = world
        .items()
        .map_blocking(Concurrency::ordered(4), |item| {
            assert_ne!(item.n, 70, "a seventy");
            if item.n == 30 { Err("a thirty") } else { Ok(item) }
        })
        .named("hash")
        .sink(world.sink.sink());
    let summary = flow.run().await.unwrap();
    assert_eq!((summary.status.diverted, summary.status.committed), (4, 400));
    world.checker().order(Order::Partition).check().assert_clean();
    let mut errors: Vec<_> =
        world.dead.items().into_iter().map(|l| (l.position.get(), l.step, l.error)).collect();
    errors.sort();
    assert_eq!((errors[0].0, errors[0].2.as_str()), (30, "a thirty"));
    assert_eq!((errors[2].0, errors[2].1.as_str()), (70, "hash"));
    assert!(errors[2].2.starts_with("panicked: ") && errors[2].2.contains("a seventy"));
}
