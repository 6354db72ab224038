//! Statements on users, access keys, groups and policies.

use std::collections::BTreeMap;

use serde_json::Value;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::db::{Db, DbError, Statement};
use crate::storage::types::BucketName;
use crate::storage::users::{AccessKey, Attached, BucketAccess, Change, KeyHolder, User};

static KEY_HOLDER: Statement = Statement {
    name: "key_holder",
    sql: "-- key_holder
SELECT u.name, u.canonical_id, u.account, u.created_at, k.secret, k.enabled, k.expires_at,
    ARRAY(SELECT o.access_key FROM lobgate.access_key o WHERE o.user_id = u.id) AS access_keys,
    ARRAY(SELECT p.document FROM lobgate.iam_policy p WHERE p.id IN (
        SELECT policy_id FROM lobgate.iam_user_policy WHERE user_id = u.id
        UNION SELECT g.policy_id FROM lobgate.iam_group_policy g
            JOIN lobgate.iam_group_member m ON m.group_id = g.group_id WHERE m.user_id = u.id)) AS policies
FROM lobgate.access_key k JOIN lobgate.iam_user u ON u.id = k.user_id WHERE k.access_key = $1",
    types: &[Type::TEXT],
};

static BUCKET_ACCESS: Statement = Statement {
    name: "bucket_access",
    sql: "-- bucket_access
SELECT b.owner, u.name, u.account,
    coalesce((SELECT jsonb_object_agg(s.kind, s.document) FROM lobgate.bucket_setting s
        WHERE s.bucket_id = b.id AND s.kind IN (
            'policy', 'acl', 'object_ownership', 'public_access_block', 'lifecycle', 'request_payment')), '{}')
FROM lobgate.bucket b LEFT JOIN lobgate.iam_user u ON u.canonical_id = b.owner WHERE b.name = $1",
    types: &[Type::TEXT],
};

static NOTE_USE: Statement = Statement {
    name: "note_use",
    sql: "-- note_use
UPDATE lobgate.access_key SET last_used_at = clock_timestamp() WHERE access_key = ANY ($1)",
    types: &[Type::TEXT_ARRAY],
};

static CREATE_USER: Statement = Statement {
    name: "create_user",
    sql: "-- create_user
INSERT INTO lobgate.iam_user (name, canonical_id, account) SELECT $1, $2, $3
WHERE NOT EXISTS (SELECT FROM lobgate.access_key WHERE access_key = $1) ON CONFLICT DO NOTHING RETURNING id",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT],
};

static DELETE_USER: Statement = Statement {
    name: "delete_user",
    sql: "-- delete_user
WITH gone AS (DELETE FROM lobgate.iam_user u WHERE u.name = $1
    AND NOT EXISTS (SELECT FROM lobgate.bucket b WHERE b.owner = u.canonical_id) RETURNING id)
SELECT EXISTS (SELECT FROM gone), EXISTS (SELECT FROM lobgate.iam_user WHERE name = $1)",
    types: &[Type::TEXT],
};

static USERS: Statement = Statement {
    name: "users",
    sql: "-- users
SELECT u.name, u.canonical_id, u.account, u.created_at,
    ARRAY(SELECT p.name FROM lobgate.iam_user_policy a JOIN lobgate.iam_policy p ON p.id = a.policy_id
        WHERE a.user_id = u.id ORDER BY p.name) AS policies,
    ARRAY(SELECT g.name FROM lobgate.iam_group_member m JOIN lobgate.iam_group g ON g.id = m.group_id
        WHERE m.user_id = u.id ORDER BY g.name) AS groups
FROM lobgate.iam_user u ORDER BY u.name",
    types: &[],
};

static FIND_USER: Statement = Statement {
    name: "find_user",
    sql: "-- find_user
SELECT u.name, u.canonical_id, u.account, u.created_at FROM lobgate.iam_user u
WHERE u.name = $1 OR u.canonical_id = $1 OR u.account = $1
    OR u.id = (SELECT k.user_id FROM lobgate.access_key k WHERE k.access_key = $1)
ORDER BY (u.canonical_id = $1) DESC, (u.name = $1) DESC LIMIT 1",
    types: &[Type::TEXT],
};

static CREATE_KEY: Statement = Statement {
    name: "create_key",
    sql: "-- create_key
WITH made AS (INSERT INTO lobgate.access_key (access_key, user_id, secret, expires_at)
    SELECT $2, u.id, $3, $4 FROM lobgate.iam_user u WHERE u.name = $1
    AND NOT EXISTS (SELECT FROM lobgate.iam_user o WHERE o.name = $2 AND o.name <> $1)
    ON CONFLICT DO NOTHING RETURNING access_key)
SELECT EXISTS (SELECT FROM made), EXISTS (SELECT FROM lobgate.iam_user WHERE name = $1)",
    types: &[Type::TEXT, Type::TEXT, Type::BYTEA, Type::TIMESTAMPTZ],
};

static KEYS: Statement = Statement {
    name: "keys",
    sql: "-- keys
SELECT k.access_key, u.name, k.enabled, k.created_at, k.expires_at, k.last_used_at
FROM lobgate.access_key k JOIN lobgate.iam_user u ON u.id = k.user_id
WHERE $1::text IS NULL OR u.name = $1 ORDER BY u.name, k.created_at",
    types: &[Type::TEXT],
};

static ANY_SECRET: Statement = Statement {
    name: "any_secret",
    sql: "-- any_secret
SELECT access_key, secret FROM lobgate.access_key ORDER BY created_at DESC LIMIT 1",
    types: &[],
};

static ENABLE_KEY: Statement = Statement {
    name: "enable_key",
    sql: "-- enable_key
UPDATE lobgate.access_key SET enabled = $2 WHERE access_key = $1 RETURNING access_key",
    types: &[Type::TEXT, Type::BOOL],
};

static EXPIRE_KEY: Statement = Statement {
    name: "expire_key",
    sql: "-- expire_key
UPDATE lobgate.access_key SET expires_at = $2 WHERE access_key = $1 RETURNING access_key",
    types: &[Type::TEXT, Type::TIMESTAMPTZ],
};

static DELETE_KEY: Statement = Statement {
    name: "delete_key",
    sql: "-- delete_key
DELETE FROM lobgate.access_key WHERE access_key = $1 RETURNING access_key",
    types: &[Type::TEXT],
};

static CREATE_GROUP: Statement = Statement {
    name: "create_group",
    sql: "-- create_group
INSERT INTO lobgate.iam_group (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id",
    types: &[Type::TEXT],
};

static DELETE_GROUP: Statement = Statement {
    name: "delete_group",
    sql: "-- delete_group
WITH gone AS (DELETE FROM lobgate.iam_group g WHERE g.name = $1 AND NOT (
    EXISTS (SELECT FROM lobgate.iam_group_policy a WHERE a.group_id = g.id)
    AND EXISTS (SELECT FROM lobgate.iam_group_member m WHERE m.group_id = g.id)) RETURNING id)
SELECT EXISTS (SELECT FROM gone), EXISTS (SELECT FROM lobgate.iam_group WHERE name = $1)",
    types: &[Type::TEXT],
};

static GROUPS: Statement = Statement {
    name: "groups",
    sql: "-- groups
SELECT g.name,
    ARRAY(SELECT u.name FROM lobgate.iam_group_member m JOIN lobgate.iam_user u ON u.id = m.user_id
        WHERE m.group_id = g.id ORDER BY u.name) AS members,
    ARRAY(SELECT p.name FROM lobgate.iam_group_policy a JOIN lobgate.iam_policy p ON p.id = a.policy_id
        WHERE a.group_id = g.id ORDER BY p.name) AS policies
FROM lobgate.iam_group g ORDER BY g.name",
    types: &[],
};

static ADD_MEMBER: Statement = Statement {
    name: "add_member",
    sql: "-- add_member
WITH pair AS (SELECT g.id AS group_id, u.id AS user_id FROM lobgate.iam_group g, lobgate.iam_user u
    WHERE g.name = $1 AND u.name = $2),
made AS (INSERT INTO lobgate.iam_group_member SELECT group_id, user_id FROM pair ON CONFLICT DO NOTHING)
SELECT FROM pair",
    types: &[Type::TEXT, Type::TEXT],
};

static REMOVE_MEMBER: Statement = Statement {
    name: "remove_member",
    sql: "-- remove_member
DELETE FROM lobgate.iam_group_member m USING lobgate.iam_group g, lobgate.iam_user u
WHERE g.name = $1 AND u.name = $2 AND m.group_id = g.id AND m.user_id = u.id RETURNING m.user_id",
    types: &[Type::TEXT, Type::TEXT],
};

static PUT_POLICY: Statement = Statement {
    name: "put_policy",
    sql: "-- put_policy
INSERT INTO lobgate.iam_policy (name, document) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET document = excluded.document, updated_at = clock_timestamp()",
    types: &[Type::TEXT, Type::TEXT],
};

static DELETE_POLICY: Statement = Statement {
    name: "delete_policy",
    sql: "-- delete_policy
DELETE FROM lobgate.iam_policy WHERE name = $1 RETURNING id",
    types: &[Type::TEXT],
};

static POLICIES: Statement = Statement {
    name: "policies",
    sql: "-- policies
SELECT name, document FROM lobgate.iam_policy ORDER BY name",
    types: &[],
};

static ATTACH_TO_USER: Statement = Statement {
    name: "attach_to_user",
    sql: "-- attach_to_user
WITH pair AS (SELECT u.id AS user_id, p.id AS policy_id FROM lobgate.iam_policy p, lobgate.iam_user u
    WHERE p.name = $1 AND u.name = $2),
made AS (INSERT INTO lobgate.iam_user_policy SELECT user_id, policy_id FROM pair ON CONFLICT DO NOTHING)
SELECT FROM pair",
    types: &[Type::TEXT, Type::TEXT],
};

static ATTACH_TO_GROUP: Statement = Statement {
    name: "attach_to_group",
    sql: "-- attach_to_group
WITH pair AS (SELECT g.id AS group_id, p.id AS policy_id FROM lobgate.iam_policy p, lobgate.iam_group g
    WHERE p.name = $1 AND g.name = $2),
made AS (INSERT INTO lobgate.iam_group_policy SELECT group_id, policy_id FROM pair ON CONFLICT DO NOTHING)
SELECT FROM pair",
    types: &[Type::TEXT, Type::TEXT],
};

static DETACH_FROM_USER: Statement = Statement {
    name: "detach_from_user",
    sql: "-- detach_from_user
DELETE FROM lobgate.iam_user_policy a USING lobgate.iam_policy p, lobgate.iam_user u
WHERE p.name = $1 AND u.name = $2 AND a.policy_id = p.id AND a.user_id = u.id RETURNING p.id",
    types: &[Type::TEXT, Type::TEXT],
};

static DETACH_FROM_GROUP: Statement = Statement {
    name: "detach_from_group",
    sql: "-- detach_from_group
DELETE FROM lobgate.iam_group_policy a USING lobgate.iam_policy p, lobgate.iam_group g
WHERE p.name = $1 AND g.name = $2 AND a.policy_id = p.id AND a.group_id = g.id RETURNING p.id",
    types: &[Type::TEXT, Type::TEXT],
};

fn user(row: &Row) -> User {
    User {
        name: row.get("name"),
        canonical_id: row.get("canonical_id"),
        account: row.get("account"),
        created_at: row.get("created_at"),
    }
}

/// Who holds an access key.
pub(crate) async fn key_holder(db: &Db, access_key: &str) -> Result<Option<KeyHolder>, DbError> {
    let rows = db.read(&KEY_HOLDER, &[&access_key]).await?;
    Ok(rows.first().map(|row| KeyHolder {
        user: user(row),
        secret: row.get("secret"),
        enabled: row.get("enabled"),
        expires_at: row.get("expires_at"),
        access_keys: row.get("access_keys"),
        policies: row.get("policies"),
    }))
}

/// What decides about a bucket.
pub(crate) async fn bucket_access(db: &Db, bucket: &BucketName) -> Result<Option<BucketAccess>, DbError> {
    let rows = db.read(&BUCKET_ACCESS, &[&bucket.as_str()]).await?;
    Ok(rows.first().map(|row| {
        let settings: Value = row.get(3);
        let texts = settings.as_object().into_iter().flatten();
        let settings: BTreeMap<String, String> =
            texts.filter_map(|(kind, text)| Some((kind.clone(), text.as_str()?.to_owned()))).collect();
        BucketAccess { owner: row.get(0), owner_name: row.get(1), owner_account: row.get(2), settings }
    }))
}

/// Notes that keys were used.
pub(crate) async fn note_use(db: &Db, access_keys: &[String]) -> Result<(), DbError> {
    db.write(&NOTE_USE, &[&access_keys]).await.map(drop)
}

/// Runs a statement that gives a row where it did something, and says what `nothing` means.
async fn change(
    db: &Db,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
    nothing: Change,
) -> Result<Change, DbError> {
    Ok(if db.write(statement, params).await?.is_empty() { nothing } else { Change::Done })
}

/// As [`change`], for statements that tell whether it is done and whether it stands in the way.
async fn told(
    db: &Db,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
    there: Change,
) -> Result<Change, DbError> {
    let rows = db.write(statement, params).await?;
    let told = rows.first().map(|row| (row.get::<_, bool>(0), row.get::<_, bool>(1)));
    Ok(match told {
        Some((true, _)) => Change::Done,
        Some((false, true)) => there,
        _ => Change::Missing,
    })
}

/// Creates a user.
pub(crate) async fn create_user(db: &Db, name: &str, id: &str, account: &str) -> Result<Change, DbError> {
    change(db, &CREATE_USER, &[&name, &id, &account], Change::Exists).await
}

/// Deletes a user without buckets.
pub(crate) async fn delete_user(db: &Db, name: &str) -> Result<Change, DbError> {
    told(db, &DELETE_USER, &[&name], Change::InUse).await
}

/// All users with their policies and groups.
pub(crate) async fn users(db: &Db) -> Result<Vec<(User, Vec<String>, Vec<String>)>, DbError> {
    let rows = db.read(&USERS, &[]).await?;
    Ok(rows.iter().map(|row| (user(row), row.get("policies"), row.get("groups"))).collect())
}

/// Finds a user by any of its names.
pub(crate) async fn find_user(db: &Db, name: &str) -> Result<Option<User>, DbError> {
    Ok(db.read(&FIND_USER, &[&name]).await?.first().map(user))
}

/// Stores an access key.
pub(crate) async fn create_key(
    db: &Db,
    user: &str,
    access_key: &str,
    secret: &[u8],
    expires_at: Option<OffsetDateTime>,
) -> Result<Change, DbError> {
    told(db, &CREATE_KEY, &[&user, &access_key, &secret, &expires_at], Change::Exists).await
}

/// Access keys.
pub(crate) async fn keys(db: &Db, user: Option<&str>) -> Result<Vec<AccessKey>, DbError> {
    let shown = |row: Row| AccessKey {
        access_key: row.get(0),
        user: row.get(1),
        enabled: row.get(2),
        created_at: row.get(3),
        expires_at: row.get(4),
        last_used_at: row.get(5),
    };
    Ok(db.read(&KEYS, &[&user]).await?.into_iter().map(shown).collect())
}

/// The newest secret.
pub(crate) async fn any_secret(db: &Db) -> Result<Option<(String, Vec<u8>)>, DbError> {
    Ok(db.read(&ANY_SECRET, &[]).await?.first().map(|row| (row.get(0), row.get(1))))
}

/// Enables or disables a key.
pub(crate) async fn enable_key(db: &Db, access_key: &str, enabled: bool) -> Result<Change, DbError> {
    change(db, &ENABLE_KEY, &[&access_key, &enabled], Change::Missing).await
}

/// Sets when a key ends.
pub(crate) async fn expire_key(db: &Db, access_key: &str, at: Option<OffsetDateTime>) -> Result<Change, DbError> {
    change(db, &EXPIRE_KEY, &[&access_key, &at], Change::Missing).await
}

/// Deletes a key.
pub(crate) async fn delete_key(db: &Db, access_key: &str) -> Result<Change, DbError> {
    change(db, &DELETE_KEY, &[&access_key], Change::Missing).await
}

/// Creates a group.
pub(crate) async fn create_group(db: &Db, name: &str) -> Result<Change, DbError> {
    change(db, &CREATE_GROUP, &[&name], Change::Exists).await
}

/// Deletes a group.
pub(crate) async fn delete_group(db: &Db, name: &str) -> Result<Change, DbError> {
    told(db, &DELETE_GROUP, &[&name], Change::InUse).await
}

/// All groups with their members and policies.
pub(crate) async fn groups(db: &Db) -> Result<Vec<(String, Vec<String>, Vec<String>)>, DbError> {
    Ok(db.read(&GROUPS, &[]).await?.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// Adds or removes a member.
pub(crate) async fn set_member(db: &Db, group: &str, user: &str, member: bool) -> Result<Change, DbError> {
    let statement = if member { &ADD_MEMBER } else { &REMOVE_MEMBER };
    change(db, statement, &[&group, &user], Change::Missing).await
}

/// Stores or replaces a policy.
pub(crate) async fn put_policy(db: &Db, name: &str, document: &str) -> Result<(), DbError> {
    db.write(&PUT_POLICY, &[&name, &document]).await.map(drop)
}

/// Deletes a policy; the foreign keys refuse one that is attached.
pub(crate) async fn delete_policy(db: &Db, name: &str) -> Result<Change, DbError> {
    match change(db, &DELETE_POLICY, &[&name], Change::Missing).await {
        Err(error) if error.sqlstate().is_some_and(|s| s.code() == "23503") => Ok(Change::InUse),
        outcome => outcome,
    }
}

/// All policies.
pub(crate) async fn policies(db: &Db) -> Result<Vec<(String, String)>, DbError> {
    Ok(db.read(&POLICIES, &[]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Attaches or detaches a policy.
pub(crate) async fn attach_policy(db: &Db, policy: &str, to: Attached<'_>, attach: bool) -> Result<Change, DbError> {
    let (statement, name) = match (to, attach) {
        (Attached::User(name), true) => (&ATTACH_TO_USER, name),
        (Attached::User(name), false) => (&DETACH_FROM_USER, name),
        (Attached::Group(name), true) => (&ATTACH_TO_GROUP, name),
        (Attached::Group(name), false) => (&DETACH_FROM_GROUP, name),
    };
    change(db, statement, &[&policy, &name], Change::Missing).await
}
