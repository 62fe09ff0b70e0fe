//! Making a connection, and what has to be known of the server behind it.

use crate::{
    actions::{self, Form},
    endpoint::{self, Topology},
    options::{Options, Scripting},
};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, ProtocolVersion, RedisError, RedisResult,
    TlsCertificates, Value,
    aio::{ConnectionLike as _, MultiplexedConnection, PubSub},
    cluster::ClusterClientBuilder,
    cluster_async::ClusterConnection,
    cmd,
};
use std::time::Duration;
use tokio::time::timeout;

/// A connection on which any number of commands are under way at once. Clones share it.
#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Self::One(connection) => connection.req_packed_command(command).await,
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        };
        // A refusal is an answer too, to that layer.
        answer.and_then(Value::extract_error)
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}

/// A fresh connection, and where the primary is (any node of a cluster).
pub(crate) struct Connected {
    pub(crate) connection: Connection,
    pub(crate) primary: ConnectionInfo,
}

fn config() -> AsyncConnectionConfig {
    // Time is kept by the callers, over connecting and repetitions together.
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}

/// Connects once. `nodes` are nodes of the cluster that were seen before. Takes what time it takes.
pub(crate) async fn connect(
    topology: &Topology,
    nodes: &[(String, u16)],
    options: &Options,
) -> RedisResult<Connected> {
    match topology {
        Topology::One(info) => one(info).await,
        Topology::Sentinel { sentinels, service, primary } => {
            let mut last =
                RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "no sentinel answered"));
            let share = options.connect_timeout / u32::try_from(sentinels.len().max(1)).unwrap_or(u32::MAX);
            for sentinel in sentinels {
                match timeout(share, by_sentinel(sentinel, service, primary)).await {
                    Ok(Ok(connected)) => return Ok(connected),
                    Ok(Err(error)) => last = error,
                    Err(_) => {
                        last = RedisError::from((
                            ErrorKind::Io,
                            "a sentinel, or the primary it named, is silent",
                        ));
                    }
                }
            }
            Err(last)
        }
        Topology::Cluster(seeds) => cluster(seeds, nodes, options).await,
    }
}

async fn one(info: &ConnectionInfo) -> RedisResult<Connected> {
    let client = endpoint::client(info)?;
    let mut connection =
        Connection::One(client.get_multiplexed_async_connection_with_config(&config()).await?);
    connection.send(&cmd("PING")).await?;
    Ok(Connected { connection, primary: info.clone() })
}

async fn by_sentinel(
    sentinel: &ConnectionInfo,
    service: &str,
    primary: &ConnectionInfo,
) -> RedisResult<Connected> {
    let mut asked =
        endpoint::client(sentinel)?.get_multiplexed_async_connection_with_config(&config()).await?;
    let mut question = cmd("SENTINEL");
    let found: Option<(String, u16)> =
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(service).query_async(&mut asked).await?;
    let Some((host, port)) = found else {
        return Err(RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "no such primary")));
    };
    let mut connected = one(&endpoint::at(primary, &host, port)).await?;
    // In the middle of a failover a sentinel may still name the former primary.
    match connected.connection.send(&cmd("ROLE")).await? {
        Value::Array(role) if role.first() == Some(&Value::BulkString(b"master".to_vec())) => Ok(connected),
        _ => Err(RedisError::from((
            ErrorKind::MasterNameNotFoundBySentinel,
            "what a sentinel names is no primary",
        ))),
    }
}

async fn cluster(
    seeds: &[ConnectionInfo],
    nodes: &[(String, u16)],
    options: &Options,
) -> RedisResult<Connected> {
    let Some(first) = seeds.first() else {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "no node of the cluster is named")));
    };
    let seen = nodes.iter().map(|(host, port)| endpoint::at(first, host, *port));
    let all: Vec<_> = seeds.iter().cloned().chain(seen).collect();
    let mut builder = ClusterClientBuilder::new(all)
        .connection_timeout(options.connect_timeout)
        .response_timeout(options.deadline)
        .retries(3)
        .max_retry_wait(100)
        .use_protocol(ProtocolVersion::RESP2);
    if let Some(pem) = &options.root_certificates {
        builder = builder.certs(TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) });
    }
    let mut connection = Connection::Cluster(builder.build()?.get_async_connection().await?);
    connection.send(&cmd("PING")).await?;
    Ok(Connected { connection, primary: first.clone() })
}

/// A connection for messages. It is silent unless something is published.
pub(crate) async fn listen(info: &ConnectionInfo, limit: Duration) -> RedisResult<PubSub> {
    let silent = |_| RedisError::from((ErrorKind::Io, "no answer in time"));
    let client = endpoint::client(info)?;
    timeout(limit, client.get_async_pubsub()).await.map_err(silent)?
}

/// What `INFO` told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// As people say it: `Redis 7.0.15`, `Valkey 9.1.2`.
    pub(crate) version: String,
    pub(crate) is_old: bool,
    pub(crate) in_cluster: bool,
    /// What it does when its memory is full.
    pub(crate) eviction: String,
}

impl Server {
    /// Reads the answer to `INFO`.
    fn read(info: &str) -> Option<Self> {
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let redis = field("redis_version")?;
        let (name, version) = match field("valkey_version") {
            Some(valkey) => ("Valkey", valkey),
            None => ("Redis", redis),
        };
        // Valkey says which Redis it can stand in for, 7.2.4 since its first version.
        let major: u32 = redis.split('.').next()?.parse().ok()?;
        Some(Self {
            version: format!("{name} {version}"),
            is_old: major < 7,
            in_cluster: field("cluster_enabled") == Some("1"),
            eviction: field("maxmemory_policy").unwrap_or_default().to_owned(),
        })
    }
}

/// Asks the server what it is; `None` where it may not tell.
pub(crate) async fn server(connection: &mut Connection) -> RedisResult<Option<Server>> {
    let Connection::One(one) = connection else { return Ok(None) };
    match cmd("INFO").query_async::<String>(one).await {
        Ok(info) => Ok(Server::read(&info)),
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Loads the library, and says how actions run here.
pub(crate) async fn load(connection: &mut Connection, scripting: Scripting) -> RedisResult<Form> {
    if scripting == Scripting::Scripts {
        return Ok(Form::Script);
    }
    match connection.send(&actions::load()).await {
        Ok(_) => Ok(Form::Function),
        Err(error) if scripting == Scripting::Auto && is_forbidden(&error) => Ok(Form::Script),
        Err(error) => Err(error),
    }
}

/// Whether a command is not there, or not for us.
pub(crate) fn is_forbidden(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") || error.to_string().contains("unknown command")
}

/// The primaries of a cluster, in the order of the slots that each has.
pub(crate) async fn primaries(connection: &mut Connection) -> RedisResult<Vec<(String, u16)>> {
    let mut question = cmd("CLUSTER");
    let value = connection.send(question.arg("SLOTS")).await?;
    let mut found = Vec::new();
    if let Value::Array(ranges) = value {
        for range in ranges {
            let Value::Array(range) = range else { continue };
            let (Some(Value::Int(start)), Some(Value::Array(primary))) = (range.first(), range.get(2)) else {
                continue;
            };
            if let (Some(Value::BulkString(host)), Some(Value::Int(port))) = (primary.first(), primary.get(1))
            {
                let host = String::from_utf8_lossy(host).into_owned();
                if let (false, Ok(port)) = (host.is_empty(), u16::try_from(*port)) {
                    found.push((*start, host, port));
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, host, port)| (host, port)).collect())
}

/// The incarnations of the primaries of a cluster: another one may have lost its memory.
pub(crate) async fn incarnations(connection: &mut Connection) -> RedisResult<Vec<String>> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::BulkString(text) => {
                let text = String::from_utf8_lossy(text);
                found.extend(text.lines().filter_map(|line| line.strip_prefix("run_id:")).map(str::to_owned));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            Value::Map(pairs) => pairs.iter().for_each(|(_, value)| collect(value, found)),
            Value::VerbatimString { text, .. } => collect(&Value::BulkString(text.clone().into()), found),
            _ => {}
        }
    }
    let mut question = cmd("INFO");
    let answer = connection.send(question.arg("SERVER")).await?;
    let mut found = Vec::new();
    collect(&answer, &mut found);
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_tells_what_it_is() {
        let redis =
            "# Server\r\nredis_version:7.0.15\r\ncluster_enabled:1\r\nmaxmemory_policy:noeviction\r\n";
        let expected = Server {
            version: "Redis 7.0.15".to_owned(),
            is_old: false,
            in_cluster: true,
            eviction: "noeviction".to_owned(),
        };
        assert_eq!(Server::read(redis), Some(expected));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\ncluster_enabled:0\r\n";
        let valkey = Server::read(valkey).expect("it tells");
        assert_eq!(
            (valkey.version.as_str(), valkey.is_old, valkey.in_cluster),
            ("Valkey 9.1.2", false, false)
        );
        assert!(Server::read("redis_version:6.2.1\r\n").is_some_and(|server| server.is_old));
        assert_eq!(Server::read("something else"), None);
    }
}
