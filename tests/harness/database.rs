//! A database per test: large objects belong to the database, so nothing less isolates tests from each other.
//!
//! It is copied from a template that `lobgate migrate up` migrated once, owned by an ordinary role, and dropped at the end.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Client, NoTls};

use super::cluster::{Cluster, ROLE};

/// A database on a test cluster; dropping the value drops it.
pub(crate) struct Database {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) name: String,
}

impl Database {
    /// A migrated database on the shared cluster.
    pub(crate) async fn create() -> Self {
        Self::create_on(Cluster::shared()).await
    }

    /// A migrated database on `cluster`.
    pub(crate) async fn create_on(cluster: Arc<Cluster>) -> Self {
        let template = cluster.template.get_or_init(|| migrated_template(&cluster)).await.clone();
        Self::copy_of(cluster, &template).await
    }

    /// A database that lobgate has never seen, on the shared cluster.
    pub(crate) async fn virgin() -> Self {
        Self::empty_on(Cluster::shared()).await
    }

    /// The same on `cluster`.
    pub(crate) async fn empty_on(cluster: Arc<Cluster>) -> Self {
        Self::copy_of(cluster, "template0").await
    }

    /// A database that came with the files of `cluster`.
    pub(crate) fn existing(cluster: Arc<Cluster>, name: &str) -> Self {
        Self { cluster, name: name.to_owned() }
    }

    async fn copy_of(cluster: Arc<Cluster>, template: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("lobgate_test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let admin = connect(&cluster.superuser("postgres")).await;
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template} OWNER {ROLE} ENCODING 'UTF8'");
        admin.batch_execute(&statement).await.expect("create the test's database");
        Self { cluster, name }
    }

    /// The URL for the role that owns the database.
    pub(crate) fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    /// A connection as the superuser, for looking at what no ordinary role may see.
    pub(crate) async fn superuser(&self) -> Client {
        connect(&self.cluster.superuser(&self.name)).await
    }

    /// A single number, asked as the superuser.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        let row = self.superuser().await.query_one(query, &[]).await;
        row.unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
    }

    /// Statements run as the superuser.
    pub(crate) async fn execute(&self, statements: &str) {
        let done = self.superuser().await.batch_execute(statements).await;
        done.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let config = self.cluster.superuser("postgres");
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        super::blocking(async move {
            // A cluster that a test has just crashed has nothing left to drop.
            if let Ok((client, connection)) = config.connect(NoTls).await {
                tokio::spawn(connection);
                let _ = client.batch_execute(&statement).await;
            }
        });
    }
}

/// Connects, and drives the connection on the calling runtime.
pub(crate) async fn connect(config: &tokio_postgres::Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("connect to the test's PostgreSQL");
    tokio::spawn(connection);
    client
}

async fn migrated_template(cluster: &Arc<Cluster>) -> String {
    let name = format!("lobgate_template_{}", std::process::id());
    let admin = connect(&cluster.superuser("postgres")).await;
    let statement = format!("CREATE DATABASE {name} TEMPLATE template0 OWNER {ROLE} ENCODING 'UTF8'");
    admin.batch_execute(&statement).await.expect("create the template database");
    let migrated = Command::new(env!("CARGO_BIN_EXE_lobgate"))
        .args(["migrate", "up", "--database-url", &cluster.url(&name)])
        .output()
        .expect("run lobgate migrate up");
    assert!(
        migrated.status.success(),
        "lobgate migrate up: {}\n{}",
        String::from_utf8_lossy(&migrated.stdout),
        String::from_utf8_lossy(&migrated.stderr)
    );
    name
}
