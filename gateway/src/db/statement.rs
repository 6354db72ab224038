//! SQL statements as values: name, text, parameter types.
//!
//! Prepared once per connection where the connection is ours alone; sent as unnamed statements in one round trip where
//! a transaction pooler stands in between, since a named one may lie on another server connection by then.

use std::error::Error;

use bytes::{BufMut, Bytes, BytesMut};
use deadpool_postgres::ClientWrapper;
use futures::TryStreamExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::{DbError, DbErrorKind};

/// A statement of the product. Its text begins with `-- name`, so that it is recognised in `pg_stat_statements`.
#[derive(Debug)]
pub struct Statement {
    /// For logs and metrics.
    pub name: &'static str,
    /// The SQL.
    pub sql: &'static str,
    /// Types of its parameters.
    pub types: &'static [Type],
}

impl Statement {
    /// Runs it and makes a value of each row while the rest is still under way, so that a long answer is decoded beside
    /// the server's work and its rows need not be kept.
    pub(super) async fn run_mapped<T>(
        &self,
        client: &ClientWrapper,
        pooled: bool,
        params: &[&(dyn ToSql + Sync)],
        map: fn(Row) -> T,
    ) -> Result<Vec<T>, DbError> {
        debug_assert_eq!(params.len(), self.types.len(), "parameters of {}", self.name);
        if client.is_closed() {
            return Err(DbError::of_kind(DbErrorKind::Connect, "the connection was closed before anything was sent"));
        }
        let rows = if pooled {
            let typed: Vec<_> = params.iter().copied().zip(self.types.iter().cloned()).collect();
            client.query_typed_raw(self.sql, typed).await
        } else {
            let prepared = client.prepare_typed_cached(self.sql, self.types).await;
            let prepared = prepared.map_err(|e| DbError::from_driver(e).of_preparation())?;
            client.query_raw(&prepared, params.iter().copied()).await
        };
        let rows = rows.map_err(DbError::from_driver)?;
        rows.map_ok(map).try_collect().await.map_err(DbError::from_driver)
    }

    pub(super) async fn run(
        &self,
        client: &ClientWrapper,
        pooled: bool,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DbError> {
        self.run_mapped(client, pooled, params, |row| row).await
    }
}

/// A `bytea` parameter made of pieces, written one behind the other into the message without being joined first.
#[derive(Debug)]
pub struct Segments<'a>(pub &'a [Bytes]);

impl ToSql for Segments<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.reserve(self.0.iter().map(Bytes::len).sum());
        for piece in self.0 {
            out.put_slice(piece);
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::BYTEA
    }

    to_sql_checked!();
}
