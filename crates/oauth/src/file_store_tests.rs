use super::*;
use crate::client::{AuthMethod, Client};
use crate::store::StoredToken;
use crate::token::{Token, TokenKind};

/// A directory of its own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let name = Secret::random().unwrap();
        let path = std::env::temp_dir().join(format!("bowline-oauth-{}", name.expose()));
        Self(path)
    }

    fn store(&self) -> FileStore {
        FileStore::new(self.0.join("deep/credentials.json"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn credentials(access: &str) -> Credentials {
    let token = Token {
        access: access.into(),
        kind: TokenKind::Bearer,
        issued_at: 1,
        expires_at: Some(5),
        refresh: Some("r".into()),
        granted: vec!["a".into()],
        requested: vec![],
        client_id: "c".into(),
    };
    let client = Client {
        id: "c".into(),
        secret: Some("s".into()),
        method: AuthMethod::ClientSecretPost,
        redirect_uri: Some("u".into()),
        secret_expires_at: None,
    };
    let tokens = [("https://mcp/".to_owned(), StoredToken { token, proof_key: Some("k".into()) })].into();
    Credentials { client: Some(client), tokens }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn what_is_saved_comes_back_and_only_the_owner_sees_it() {
    let place = Place::new();
    let store = place.store();
    assert_eq!(store.load("https://as").await.unwrap(), Credentials::default());
    assert_eq!(store.issuer_for("https://mcp/").await.unwrap(), None);
    store.save("https://mcp/", "https://as", credentials("x")).await.unwrap();
    let again = place.store();
    assert_eq!(again.load("https://as").await.unwrap(), credentials("x"));
    assert_eq!(again.load("https://other").await.unwrap(), Credentials::default());
    assert_eq!(again.issuer_for("https://mcp/").await.unwrap().as_deref(), Some("https://as"));
    assert_eq!(mode(store.path()), 0o600);
    assert_eq!(mode(store.path().parent().unwrap()), 0o700);
    let names: Vec<_> =
        std::fs::read_dir(store.path().parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{names:?}");

    let mut without = credentials("x");
    without.tokens.clear();
    store.save("https://mcp/", "https://as", without).await.unwrap();
    assert_eq!(store.issuer_for("https://mcp/").await.unwrap(), None);
    store.save("https://mcp/", "https://as", Credentials::default()).await.unwrap();
    assert!(!std::fs::read_to_string(store.path()).unwrap().contains("https://as"));
}

#[tokio::test]
async fn a_file_that_others_can_read_is_closed() {
    let place = Place::new();
    let store = place.store();
    store.save("https://mcp/", "https://as", credentials("x")).await.unwrap();
    std::fs::set_permissions(store.path(), Permissions::from_mode(0o644)).unwrap();
    store.load("https://as").await.unwrap();
    assert_eq!(mode(store.path()), 0o600);
}

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_left_alone() {
    let place = Place::new();
    let store = place.store();
    store.save("https://mcp/", "https://as", credentials("x")).await.unwrap();
    for text in ["not json", r#"{"version":2}"#] {
        std::fs::write(store.path(), text).unwrap();
        assert!(matches!(store.load("https://as").await, Err(StoreError::File { .. })), "{text}");
        assert!(store.save("https://mcp/", "https://as", credentials("y")).await.is_err());
        assert_eq!(std::fs::read_to_string(store.path()).unwrap(), text);
    }
    std::fs::write(store.path(), vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1]).unwrap();
    let error = store.load("https://as").await.unwrap_err().to_string();
    assert!(error.contains("larger"), "{error}");
}

#[tokio::test]
async fn savers_do_not_lose_each_others_writes() {
    let place = Place::new();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = place.store();
        tasks.spawn(async move {
            store.save(&format!("https://mcp{n}/"), &format!("https://as{n}"), credentials("x")).await
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap().unwrap();
    }
    for n in 0..8 {
        assert_eq!(place.store().load(&format!("https://as{n}")).await.unwrap(), credentials("x"), "{n}");
    }
}

#[tokio::test]
async fn one_issuer_is_locked_by_one() {
    let place = Place::new();
    let held = place.store().lock("https://as", Duration::ZERO).await.unwrap();
    // A second handle, as another process has it: locks of the system belong to the open file.
    assert!(matches!(
        place.store().lock("https://as", Duration::from_millis(60)).await,
        Err(StoreError::Busy(_))
    ));
    let other = place.store().lock("https://other", Duration::ZERO).await;
    assert!(other.is_ok());
    drop(held);
    assert!(place.store().lock("https://as", Duration::ZERO).await.is_ok());
}
