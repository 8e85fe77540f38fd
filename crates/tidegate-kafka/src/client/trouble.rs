//! Errors of the client library, sorted by what is to be done about them.

use rdkafka::types::RDKafkaErrorCode as Code;

/// An error as the library reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    /// What the library says, for the operator.
    pub(crate) reason: String,
}

/// What an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The network, or a broker that is away: the library goes on trying.
    Connection,
    /// All connections are down.
    AllDown,
    /// The broker doesn't believe who the client is, or the client doesn't believe the broker.
    /// The library goes on trying, which rarely helps.
    Identity,
    /// A topic or partition doesn't exist.
    Missing,
    /// The topic may not be read or written.
    TopicForbidden,
    /// The group may not be joined.
    GroupForbidden,
    /// Anything else that the client is not allowed to do.
    ClusterForbidden,
    /// The place to read at is not in the log.
    OutOfRange,
    /// Another member has the same name.
    Fenced,
    /// The group doesn't know this member any more.
    UnknownMember,
    /// What was fetched can't be decoded.
    Undecodable,
    /// A call took too long, or came at a bad time: it may be made again.
    Passing,
    /// The record is larger than allowed.
    TooLarge,
    /// The broker refuses the record for what it is.
    Invalid,
    /// The client has given up.
    Fatal,
    /// Anything else.
    Other,
}

impl Trouble {
    pub(crate) fn new(code: Option<Code>, reason: &str) -> Self {
        let kind = code.map_or(Kind::Other, kind);
        let reason = match code {
            Some(code) if reason.is_empty() => code.to_string(),
            _ => reason.to_owned(),
        };
        Self { kind, reason }
    }

    pub(super) fn of_code(code: Code) -> Self {
        Self::new(Some(code), "")
    }

    /// The client won't go on after this one, whatever it is about.
    pub(super) fn made_fatal(mut self) -> Self {
        if self.kind != Kind::Fenced {
            self.kind = Kind::Fatal;
        }
        self
    }

    pub(super) fn fatal(reason: impl Into<String>) -> Self {
        Self { kind: Kind::Fatal, reason: reason.into() }
    }
}

pub(super) fn kind(code: Code) -> Kind {
    match code {
        Code::BrokerTransportFailure
        | Code::Resolve
        | Code::BrokerNotAvailable
        | Code::NetworkException => Kind::Connection,
        Code::AllBrokersDown => Kind::AllDown,
        Code::Authentication
        | Code::SSL
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => Kind::Identity,
        Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopicId
        | Code::InvalidTopic => Kind::Missing,
        Code::TopicAuthorizationFailed => Kind::TopicForbidden,
        Code::GroupAuthorizationFailed => Kind::GroupForbidden,
        Code::ClusterAuthorizationFailed | Code::TransactionalIdAuthorizationFailed => {
            Kind::ClusterForbidden
        }
        Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation => Kind::OutOfRange,
        Code::FencedInstanceId | Code::UnreleasedInstanceId => Kind::Fenced,
        Code::UnknownMemberId => Kind::UnknownMember,
        Code::BadMessage
        | Code::BadCompression
        | Code::InvalidMessage
        | Code::Underflow
        | Code::NotImplemented
        | Code::UnsupportedCompressionType => Kind::Undecodable,
        Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::MessageTimedOut
        | Code::WaitingForCoordinator
        | Code::CoordinatorLoadInProgress
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::RebalanceInProgress
        | Code::IllegalGeneration
        | Code::StaleMemberEpoch
        | Code::FencedMemberEpoch
        | Code::AssignmentLost
        | Code::NotLeaderForPartition
        | Code::LeaderNotAvailable
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::KafkaStorageError
        | Code::QueueFull
        | Code::Retry
        | Code::UnstableOffsetCommit
        | Code::PurgeQueue
        | Code::PurgeInflight => Kind::Passing,
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Kind::TooLarge,
        Code::InvalidRecord | Code::InvalidTimestamp | Code::InvalidMessageSize => Kind::Invalid,
        Code::Fatal => Kind::Fatal,
        _ => Kind::Other,
    }
}
