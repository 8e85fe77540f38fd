use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// Encrypted connections. `tls: {}` trusts what the system trusts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A file with the certificates to trust, in PEM. Default: those that the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The client's own certificate, in PEM, for brokers that ask for one. Needs `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The password of `key`, if it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_password: Option<Secret>,
    /// Whether the broker's certificate must be for the host that is connected to. Default on:
    /// without it anybody with a trusted certificate can pass for the broker.
    #[serde(default = "yes")]
    pub verify_host: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self { ca: None, certificate: None, key: None, key_password: None, verify_host: true }
    }
}

impl Tls {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.certificate.is_some() != self.key.is_some() {
            problems.push(Problem::new("tls", "`certificate` and `key` go together"));
        }
        if self.key_password.is_some() && self.key.is_none() {
            problems.push(Problem::new("tls", "`key_password` needs a `key`"));
        }
        let files =
            [("tls.ca", &self.ca), ("tls.certificate", &self.certificate), ("tls.key", &self.key)];
        for (key, path) in files {
            if let Some(path) = path
                && let Err(error) = std::fs::File::open(path)
            {
                let path = path.display();
                problems.push(Problem::new(key, format!("{path} can't be read: {error}")));
            }
        }
    }
}

/// Who the client is, by name and password or by token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sasl {
    /// `plain`, `scram-sha-256`, `scram-sha-512` or `oauthbearer`.
    pub mechanism: Mechanism,
    /// The user. Not for `oauthbearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The user's password. Not for `oauthbearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

impl Sasl {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let has = (self.username.is_some(), self.password.is_some());
        match self.mechanism {
            Mechanism::Oauthbearer if has != (false, false) => problems.push(Problem::new(
                "sasl",
                "`oauthbearer` takes no username and password; it is set up with the \
                 `sasl.oauthbearer.*` properties",
            )),
            Mechanism::Oauthbearer => {}
            _ if has != (true, true) => {
                problems.push(Problem::new("sasl", "needs a `username` and a `password`"));
            }
            _ => {}
        }
    }
}

/// How the client proves who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mechanism {
    /// The password itself. Use it over TLS only.
    #[serde(rename = "plain")]
    Plain,
    /// A proof that the client knows the password.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// The same with a longer hash.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
    /// A token, see the `sasl.oauthbearer.*` properties of librdkafka.
    #[serde(rename = "oauthbearer")]
    Oauthbearer,
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::Oauthbearer => "OAUTHBEARER",
        }
    }
}

/// A text that is not printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn yes() -> bool {
    true
}
