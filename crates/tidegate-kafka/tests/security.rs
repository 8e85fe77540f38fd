//! Encrypted connections and passwords, and what the usual mistakes say.
//! Needs the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::time::Duration;

use common::{Broker, Member, read_to_end, unique};
use tidegate_core::{Sink, Source};
use tidegate_kafka::{
    KafkaRecord, KafkaSink, KafkaSinkConfig, KafkaSourceConfig, Mechanism, Sasl, Secret, Tls,
};

/// TLS, then a password.
const SCRAM: &str = "127.0.0.1:19096";
/// TLS with a certificate of the client.
const MUTUAL: &str = "127.0.0.1:19097";

fn secret(file: &str) -> PathBuf {
    let services = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/services/kafka-secrets");
    PathBuf::from(services).join(file)
}

fn tls() -> Tls {
    Tls { ca: Some(secret("broker.pem")), ..Tls::default() }
}

fn sasl(mechanism: Mechanism, user: &str, password: &str) -> Sasl {
    let password = Some(Secret::new(password));
    Sasl { mechanism, username: Some(user.to_owned()), password }
}

fn scram() -> Sasl {
    sasl(Mechanism::ScramSha256, "tidegate", "tidegate-secret")
}

/// Writes with a sink and reads with a source.
async fn round_trip(brokers: &str, tls: Option<Tls>, sasl: Option<Sasl>) {
    let broker = Broker::single();
    let topic = broker.topic(1).await;
    let config = KafkaSinkConfig {
        brokers: brokers.to_owned(),
        tls: tls.clone(),
        sasl: sasl.clone(),
        ..broker.sink(&topic)
    };
    let mut sink = KafkaSink::new(config).unwrap();
    sink.open().await.unwrap();
    assert_eq!(sink.write(&[KafkaRecord::new("secret")]).await.unwrap().len(), 1);
    sink.close().await.unwrap();
    let config = KafkaSourceConfig {
        brokers: brokers.to_owned(),
        tls,
        sasl,
        ..broker.source(&topic, &unique("group"))
    };
    assert_eq!(read_to_end(config).await[&0][0].1.payload.as_deref(), Some(&b"secret"[..]));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn records_go_through_tls_with_scram_with_plain_and_with_a_certificate() {
    round_trip(SCRAM, Some(tls()), Some(scram())).await;
    let plain = sasl(Mechanism::Plain, "tidegate", "tidegate-secret");
    round_trip(SCRAM, Some(tls()), Some(plain)).await;
    let mutual =
        Tls { certificate: Some(secret("client.pem")), key: Some(secret("client.key")), ..tls() };
    round_trip(MUTUAL, Some(mutual), None).await;
}

/// What a source and a sink with these settings say.
async fn complaints(change: impl Fn(&mut KafkaSourceConfig, &mut KafkaSinkConfig)) -> [String; 2] {
    let broker = Broker::single();
    let topic = broker.topic(1).await;
    let mut source = KafkaSourceConfig {
        connect_timeout: Duration::from_secs(3),
        ..broker.source(&topic, &unique("group"))
    };
    let mut sink =
        KafkaSinkConfig { connect_timeout: Duration::from_secs(3), ..broker.sink(&topic) };
    change(&mut source, &mut sink);
    let mut member = Member::new(source);
    let from_source = member.error().await;
    assert!(!from_source.is_retryable(), "{from_source}");
    member.source.close().await.unwrap();
    let mut sink = KafkaSink::new(sink).unwrap();
    let from_sink = sink.open().await.unwrap_err();
    assert!(!from_sink.is_retryable(), "{from_sink}");
    [from_source.to_string(), from_sink.to_string()]
}

/// What must be in both complaints.
fn assert_say(complaints: &[String; 2], words: &[&str]) {
    for complaint in complaints {
        println!("{complaint}\n");
        for word in words {
            assert!(complaint.contains(word), "`{word}` is missing in: {complaint}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn the_usual_mistakes_are_told_with_what_to_do() {
    let wrong = sasl(Mechanism::ScramSha256, "tidegate", "wrong-secret");
    let unknown = sasl(Mechanism::ScramSha512, "tidegate", "tidegate-secret");
    let plaintext = "127.0.0.1:19092";
    let cases: [(&str, Option<Tls>, Option<Sasl>, &[&str]); 9] = [
        ("127.0.0.1:19999", None, None, &["127.0.0.1:19999", "Nothing listens there"]),
        ("no-such-host.invalid:9092", None, None, &["no-such-host", "The name is not known"]),
        (SCRAM, None, None, &["within 3s", "If the broker's port speaks TLS, set `tls: {}`"]),
        (plaintext, Some(tls()), None, &["does not speak TLS", "remove `tls`"]),
        (SCRAM, Some(Tls::default()), Some(scram()), &["does not trust", "`tls.ca`"]),
        (MUTUAL, Some(tls()), None, &["asks for a certificate", "`tls.certificate`"]),
        (SCRAM, Some(tls()), Some(wrong), &["Check the user, the password and the mechanism"]),
        (SCRAM, Some(tls()), Some(unknown), &["Check the user", "SCRAM-SHA-256"]),
        (SCRAM, Some(tls()), None, &["TLS works", "if it asks for a password, set `sasl`"]),
    ];
    let asked = cases.map(|(brokers, tls, sasl, words)| {
        let told = complaints(move |source, sink| {
            (source.brokers, sink.brokers) = (brokers.to_owned(), brokers.to_owned());
            (source.tls, sink.tls) = (tls.clone(), tls.clone());
            (source.sasl, sink.sasl) = (sasl.clone(), sasl.clone());
        });
        (tokio::spawn(told), words)
    });
    for (told, words) in asked {
        let told = told.await.unwrap();
        assert_say(&told, words);
        assert!(!told.concat().contains("secret"), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_topic_that_does_not_exist_is_named() {
    let name = unique("nowhere");
    let told = complaints(|source, sink| {
        (source.topics, sink.topic) = (vec![name.clone()], Some(name.clone()));
    })
    .await;
    assert_say(&told, &[&format!("topic {name} does not exist"), "kafka-topics --create"]);
    let broker = Broker::single();
    let topic = broker.topic(2).await;
    let config = KafkaSourceConfig {
        topics: Vec::new(),
        partitions: Some([(topic.clone(), vec![0, 2])].into()),
        ..broker.source(&topic, &unique("group"))
    };
    let error = Member::new(config).error().await.to_string();
    assert_eq!(error, format!("topic {topic} has no partition 2: it has 2, from 0"));
}

/// Rules that let nobody but `User:other` do this.
async fn forbid(kind: &str, name: &str, operations: &[&str]) {
    let mut arguments = vec!["kafka-run", "org.apache.kafka.tools.AclCommand"];
    arguments.extend(["--bootstrap-server", "127.0.0.1:19092", "--add"]);
    arguments.extend(["--allow-principal", "User:other", kind, name]);
    for operation in operations {
        arguments.extend(["--operation", operation]);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/services");
    let ran = std::process::Command::new(script).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn what_the_cluster_does_not_allow_is_named_with_the_rule_that_is_missing() {
    let broker = Broker::single();
    let limited = || sasl(Mechanism::ScramSha256, "limited", "limited-secret");
    let (topic, group) = (broker.topic(1).await, unique("group"));
    let source = |topic: &str, group: &str| KafkaSourceConfig {
        brokers: SCRAM.to_owned(),
        tls: Some(tls()),
        sasl: Some(limited()),
        ..broker.source(topic, group)
    };
    forbid("--topic", &topic, &["Read", "Write"]).await;
    let error = Member::new(source(&topic, &group)).error().await.to_string();
    let expected = format!("does not allow this client to read topic {topic}");
    assert!(error.contains(&expected) && error.contains("Read and Describe"), "{error}");

    let config = KafkaSinkConfig {
        brokers: SCRAM.to_owned(),
        tls: Some(tls()),
        sasl: Some(limited()),
        ..broker.sink(&topic)
    };
    let mut sink = KafkaSink::new(config).unwrap();
    let error = match sink.open().await {
        Ok(()) => sink.write(&[KafkaRecord::new("x")]).await.unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    let expected = format!("does not allow this client to write to topic {topic}");
    assert!(error.contains(&expected) && error.contains("Write on the topic"), "{error}");

    let topic = broker.topic(1).await;
    forbid("--group", &group, &["Read"]).await;
    let error = Member::new(source(&topic, &group)).error().await.to_string();
    let expected = format!("does not allow this client to join group {group}");
    assert!(error.contains(&expected) && error.contains("Read on the group"), "{error}");
}
