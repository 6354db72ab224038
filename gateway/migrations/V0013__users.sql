-- Users, their access keys, groups and policies. Each user is an account of its own: it owns what it creates, has a
-- canonical id and an account number.
CREATE TABLE lobgate.iam_user (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text COLLATE "C" NOT NULL UNIQUE,
    canonical_id text NOT NULL UNIQUE,
    account      text NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Secrets have to be read to verify signatures; they are encrypted with a key that is not in the database.
CREATE TABLE lobgate.access_key (
    access_key   text COLLATE "C" PRIMARY KEY,
    user_id      integer NOT NULL REFERENCES lobgate.iam_user (id) ON DELETE CASCADE,
    secret       bytea NOT NULL,
    enabled      boolean NOT NULL DEFAULT true,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX access_key_of_user ON lobgate.access_key (user_id);

CREATE TABLE lobgate.iam_group (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE lobgate.iam_group_member (
    group_id integer NOT NULL REFERENCES lobgate.iam_group (id) ON DELETE CASCADE,
    user_id  integer NOT NULL REFERENCES lobgate.iam_user (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX iam_group_of_user ON lobgate.iam_group_member (user_id);

CREATE TABLE lobgate.iam_policy (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    document   text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A policy in use cannot be deleted: what it denies would be allowed.
CREATE TABLE lobgate.iam_user_policy (
    user_id   integer NOT NULL REFERENCES lobgate.iam_user (id) ON DELETE CASCADE,
    policy_id integer NOT NULL REFERENCES lobgate.iam_policy (id),
    PRIMARY KEY (user_id, policy_id)
);
CREATE TABLE lobgate.iam_group_policy (
    group_id  integer NOT NULL REFERENCES lobgate.iam_group (id) ON DELETE CASCADE,
    policy_id integer NOT NULL REFERENCES lobgate.iam_policy (id),
    PRIMARY KEY (group_id, policy_id)
);

-- Gateways remember who may do what, and forget it when they are told that something has changed.
CREATE FUNCTION lobgate.access_changed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NOTIFY lobgate_access;
    RETURN NULL;
END
$$;

CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.iam_user
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
-- The time of last use decides nothing.
CREATE TRIGGER access_changed
    AFTER INSERT OR UPDATE OF access_key, user_id, secret, enabled, expires_at OR DELETE OR TRUNCATE ON lobgate.access_key
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.iam_group
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.iam_group_member
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.iam_policy
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.iam_user_policy
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.iam_group_policy
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OF name, owner OR DELETE OR TRUNCATE ON lobgate.bucket
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON lobgate.bucket_setting
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
