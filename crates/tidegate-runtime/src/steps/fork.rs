use tidegate_core::{BoxFuture, Chunk, Moment, Push, Stopped};

use crate::task::earliest;
use crate::timer::Timer;

/// The ways behind a branch or tee.
pub(crate) struct Fork<T> {
    ways: Vec<Box<dyn Push<T>>>,
    timer: Timer,
}

impl<T: Send + 'static> Fork<T> {
    pub(crate) fn new(ways: Vec<Box<dyn Push<T>>>, timer: Timer) -> Self {
        Self { ways, timer }
    }

    pub(crate) fn len(&self) -> usize {
        self.ways.len()
    }

    /// Gives each way its part. While one has no room the others keep their timers: that can take
    /// long, and nobody else could wake them.
    pub(crate) async fn push(&mut self, parts: Vec<Chunk<T>>, now: Moment) -> Result<(), Stopped> {
        for (index, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let (before, rest) = self.ways.split_at_mut(index);
            let Some((way, behind)) = rest.split_first_mut() else { continue };
            let mut push = way.push(part, now);
            loop {
                let wake_at = earliest(wake_at(before), wake_at(behind));
                tokio::select! {
                    biased;
                    result = &mut push => break result?,
                    () = self.timer.sleep_until_some(wake_at) => {
                        let now = self.timer.now();
                        wake(before, now).await?;
                        wake(behind, now).await?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn wake_at(&self) -> Option<Moment> {
        wake_at(&self.ways)
    }

    pub(crate) fn wake(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(wake(&mut self.ways, now))
    }

    pub(crate) fn finish(&mut self, now: Moment) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async move {
            for way in &mut self.ways {
                way.finish(now).await?;
            }
            Ok(())
        })
    }
}

fn wake_at<T>(ways: &[Box<dyn Push<T>>]) -> Option<Moment> {
    ways.iter().fold(None, |moment, way| earliest(moment, way.wake_at()))
}

async fn wake<T>(ways: &mut [Box<dyn Push<T>>], now: Moment) -> Result<(), Stopped> {
    for way in ways {
        if way.wake_at().is_some_and(|moment| moment <= now) {
            way.wake(now).await?;
        }
    }
    Ok(())
}
