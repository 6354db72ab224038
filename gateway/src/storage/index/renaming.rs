//! The statement that renames an object.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::objects::etags;
use crate::db::{DbError, Statement, Tx};
use crate::storage::RenameObject;

static RENAME: Statement = Statement {
    name: "rename_object",
    sql: "-- rename_object
SELECT lobgate.rename_object($1 /* bucket */, $2 /* source */, $3 /* key */, $4 /* write */, $5 /* marker */, $6 /* owner */,
    $7 /* token */, $8 /* source_if_match */, $9 /* source_if_none_match */, $10 /* source_modified_since */,
    $11 /* source_unmodified_since */, $12 /* if_match */, $13 /* if_none_match */, $14 /* modified_since */,
    $15 /* unmodified_since */)",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::UUID,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ,
        Type::TIMESTAMPTZ,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ,
        Type::TIMESTAMPTZ,
    ],
};

/// Renames an object. SQLSTATE LG001, LG002, LG003 or LG011 otherwise.
pub(crate) async fn rename(tx: &Tx, write: Uuid, marker: Uuid, rename: &RenameObject) -> Result<(), DbError> {
    let (source, target) = (&rename.source_conditions, &rename.conditions);
    let params: [&(dyn ToSql + Sync); 15] = [
        &rename.bucket.as_str(),
        &rename.source.as_str(),
        &rename.key.as_str(),
        &write,
        &marker,
        &rename.owner,
        &rename.token,
        &etags(source.if_match.as_ref()),
        &etags(source.if_none_match.as_ref()),
        &source.if_modified_since,
        &source.if_unmodified_since,
        &etags(target.if_match.as_ref()),
        &etags(target.if_none_match.as_ref()),
        &target.if_modified_since,
        &target.if_unmodified_since,
    ];
    tx.run(&RENAME, &params).await.map(drop)
}
