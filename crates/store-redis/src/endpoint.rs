//! Where Redis is: the URL, for one server, for Sentinel, for a cluster.

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisResult,
    TlsCertificates,
};

/// What a URL names.
#[derive(Clone)]
pub(crate) enum Topology {
    /// One server. It may turn out to be a node of a cluster.
    One(ConnectionInfo),
    /// The primary that some sentinels know by name. `primary` has no address yet.
    Sentinel { sentinels: Vec<ConnectionInfo>, service: String, primary: ConnectionInfo },
    /// A cluster, by some of its nodes.
    Cluster(Vec<ConnectionInfo>),
}

/// Reads a URL. The error says what is wrong, without the password.
pub(crate) fn parse(url: &str, root_certificates: Option<&[u8]>) -> Result<Topology, String> {
    let (scheme, rest) = url.split_once("://").ok_or("it has no scheme, as in redis://host:6379")?;
    let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let default_port = match (base, kind) {
        ("redis" | "rediss", "" | "cluster") => 6379,
        ("redis" | "rediss", "sentinel") => 26379,
        ("unix" | "redis", _) if kind == "unix" || base == "unix" => 0,
        _ => {
            return Err(format!(
                "the scheme {scheme:?} is none of redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, \
                 rediss+cluster, unix"
            ));
        }
    };
    if default_port == 0 || kind.is_empty() {
        return Ok(Topology::One(info(url, root_certificates)?));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (credentials, hosts) = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
        None => (String::new(), authority),
    };
    let hosts: Vec<String> = hosts
        .split(',')
        .filter(|host| !host.is_empty())
        .map(|host| if has_port(host) { host.to_owned() } else { format!("{host}:{default_port}") })
        .collect();
    if hosts.is_empty() {
        return Err("it names no host".to_owned());
    }
    let all = |credentials: &str, database: &str| {
        let one =
            |host: &String| info(&format!("{base}://{credentials}{host}/{database}"), root_certificates);
        hosts.iter().map(one).collect::<Result<Vec<_>, _>>()
    };
    if kind == "cluster" {
        if !path.is_empty() && path != "0" {
            return Err("a cluster has one database, 0".to_owned());
        }
        if !query.is_empty() {
            return Err(format!("{query:?} means nothing for a cluster"));
        }
        return Ok(Topology::Cluster(all(&credentials, "")?));
    }
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    if service.is_empty() {
        return Err(
            "it does not name the primary that the sentinels watch, as in redis+sentinel://host/mymaster"
                .to_owned(),
        );
    }
    let mut sentinel_credentials = String::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel", pair)) => sentinel_credentials = format!("{pair}@"),
            _ => return Err("of options, only sentinel=user:password is known".to_owned()),
        }
    }
    Ok(Topology::Sentinel {
        sentinels: all(&sentinel_credentials, "")?,
        service: service.to_owned(),
        primary: all(&credentials, database)?.swap_remove(0),
    })
}

fn has_port(host: &str) -> bool {
    // In [::1] the last colon is not before a port.
    host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        && !host.ends_with(']')
}

fn info(url: &str, root_certificates: Option<&[u8]>) -> Result<ConnectionInfo, String> {
    let info = url.into_connection_info().map_err(|error| error.to_string())?;
    match (root_certificates, info.addr()) {
        (Some(pem), ConnectionAddr::TcpTls { .. }) => {
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.to_owned()) };
            let client = Client::build_with_tls(info, certificates).map_err(|error| error.to_string())?;
            Ok(client.get_connection_info().clone())
        }
        _ => Ok(info),
    }
}

/// `info` at another address, everything else as it is.
pub(crate) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let addr = match info.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host: host.to_owned(),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    info.clone().set_addr(addr)
}

impl Topology {
    /// Whether TLS is spoken.
    pub(crate) fn is_encrypted(&self) -> bool {
        let infos = match self {
            Self::One(info) => std::slice::from_ref(info),
            Self::Sentinel { primary, .. } => std::slice::from_ref(primary),
            Self::Cluster(nodes) => nodes,
        };
        infos.iter().any(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. }))
    }

    /// How it is named to people: addresses only.
    pub(crate) fn shown(&self) -> String {
        let list = |infos: &[ConnectionInfo]| {
            infos.iter().map(|info| info.addr().to_string()).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::One(info) => info.addr().to_string(),
            Self::Sentinel { sentinels, service, .. } => {
                format!("{service} by sentinels {}", list(sentinels))
            }
            Self::Cluster(nodes) => format!("a cluster by {}", list(nodes)),
        }
    }
}

/// A client for one server. Protocol version 2: what is pushed comes on a connection of its own.
pub(crate) fn client(info: &ConnectionInfo) -> RedisResult<Client> {
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    Client::open(info.clone().set_redis_settings(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        parse(url, None).map_or_else(|error| error, |topology| topology.shown())
    }

    #[test]
    fn urls_of_every_kind() {
        assert_eq!(shown("redis://user:secret@h/3"), "h:6379");
        assert_eq!(shown("rediss://h:7000"), "h:7000");
        assert_eq!(shown("unix:///run/redis.sock"), "/run/redis.sock");
        assert_eq!(
            shown("redis+cluster://u:p@a,b:1,[::1],[::2]:3"),
            "a cluster by a:6379, b:1, ::1:6379, ::2:3"
        );
        assert_eq!(shown("redis+sentinel://u:p@a,b:1/main/2"), "main by sentinels a:26379, b:1");
    }

    #[test]
    fn credentials_go_where_they_belong() {
        let Ok(Topology::Sentinel { sentinels, primary, .. }) =
            parse("rediss+sentinel://u:p%40w@a/main/2?sentinel=s:q", None)
        else {
            panic!("not a topology with sentinels");
        };
        let settings = primary.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("u"), Some("p@w"), 2));
        let settings = sentinels[0].redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("s"), Some("q"), 0));
        assert!(
            matches!(at(&primary, "x", 1).addr(), ConnectionAddr::TcpTls { host, port: 1, .. } if host == "x")
        );
    }

    #[test]
    fn mistakes_are_named_without_the_password() {
        for (url, word) in [
            ("h:1", "scheme"),
            ("http://u:secret@h", "http"),
            ("redis+sentinel://u:secret@h", "mymaster"),
            ("redis+sentinel://u:secret@h/m?x=1", "sentinel="),
            ("redis+cluster://u:secret@", "host"),
            ("redis+cluster://u:secret@h/1", "database"),
        ] {
            let error = shown(url);
            assert!(error.contains(word), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
