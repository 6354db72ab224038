-- Versions, object lock and tags.
--
-- A version's id is the id of the write that made it (the content id that the gateway chose, or that of its receipt): so a
-- gateway that lost the answer knows the version that the write made. NULL stays S3's "null" version; as a parameter it is
-- the nil UUID, where NULL means the latest version.
--
-- Versions of a key are ordered by object.id: it is drawn under the lock of the key's latest version. That lock, and the
-- unique index object_latest for a key that has none, put all who change a key in one order.

ALTER TABLE lobgate.bucket
    -- NULL: never versioned
    ADD COLUMN versioning text CHECK (versioning IN ('Enabled', 'Suspended')),
    ADD COLUMN object_lock boolean NOT NULL DEFAULT false,
    ADD COLUMN retention_mode text CHECK (retention_mode IN ('GOVERNANCE', 'COMPLIANCE')),
    ADD COLUMN retention_days integer CHECK (retention_days > 0),
    ADD COLUMN retention_years integer CHECK (retention_years > 0),
    ADD CHECK (NOT object_lock OR versioning IS NOT DISTINCT FROM 'Enabled'),
    ADD CHECK ((retention_mode IS NULL) = (num_nonnulls(retention_days, retention_years) = 0)),
    ADD CHECK (retention_mode IS NULL OR object_lock);

ALTER TABLE lobgate.object
    -- {"key": "value"}
    ADD COLUMN tags jsonb,
    ADD COLUMN acl jsonb,
    ADD COLUMN retention_mode text,
    ADD COLUMN retain_until timestamptz,
    -- NULL: never set
    ADD COLUMN legal_hold boolean;

-- What a client sets on the version to be: {"tags": {…}, "acl": …, "retention_mode": …, "retain_until": …, "legal_hold": …}.
ALTER TABLE lobgate.upload ADD COLUMN settings jsonb;

-- As before (V0008), and a lock has a mode and an end or neither.
CREATE FUNCTION lobgate.object_is_sound(
    p_key text, p_is_delete_marker boolean, p_content uuid, p_size bigint, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea, p_retention_mode text, p_retain_until timestamptz
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN octet_length(p_key) BETWEEN 1 AND 1024
       AND p_size >= 0
       AND p_is_delete_marker = (p_content IS NULL)
       AND (p_parts_count IS NULL OR p_parts_count BETWEEN 1 AND 10000)
       AND num_nulls(p_checksum_algorithm, p_checksum_type, p_checksum) IN (0, 3)
       AND (p_retention_mode IS NULL) = (p_retain_until IS NULL)
       AND (p_retention_mode IS NULL OR p_retention_mode IN ('GOVERNANCE', 'COMPLIANCE'));
END
$$;
ALTER TABLE lobgate.object
    DROP CONSTRAINT object_sound,
    ADD CONSTRAINT object_sound CHECK (lobgate.object_is_sound(key, is_delete_marker, content_id, size, parts_count,
        checksum_algorithm, checksum_type, checksum, retention_mode, retain_until)) NOT VALID;
DROP FUNCTION lobgate.object_is_sound(text, boolean, uuid, bigint, integer, text, text, bytea);

-- The latest version of a key, be it a delete marker: what GET looks up and listings scan, from the index alone where only
-- keys are wanted.
CREATE UNIQUE INDEX object_latest ON lobgate.object (bucket_id, key) INCLUDE (is_delete_marker) WHERE is_latest;
DROP INDEX lobgate.object_live;
-- These three have no entry for what unversioned buckets hold.
CREATE INDEX object_past ON lobgate.object (bucket_id, key, id DESC) WHERE NOT is_latest;
CREATE UNIQUE INDEX object_past_null ON lobgate.object (bucket_id, key) WHERE NOT is_latest AND version_id IS NULL;
CREATE UNIQUE INDEX object_version ON lobgate.object (version_id) WHERE version_id IS NOT NULL;

-- Whether a version may not be deleted now. lobgate.bypass_governance is 'on' for the rest of a transaction that may.
CREATE FUNCTION lobgate.is_locked(p_mode text, p_until timestamptz, p_hold boolean) RETURNS boolean
LANGUAGE sql VOLATILE
AS $$
    SELECT coalesce(p_hold, false)
        OR (p_until IS NOT NULL AND p_until > clock_timestamp()
            AND NOT (p_mode = 'GOVERNANCE' AND coalesce(current_setting('lobgate.bypass_governance', true), '') = 'on'))
$$;

-- Locks hold against every statement, ours or an operator's. SQLSTATE LG006: locked.
CREATE FUNCTION lobgate.refuse_locked() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF lobgate.is_locked(OLD.retention_mode, OLD.retain_until, OLD.legal_hold) THEN
        RAISE EXCEPTION USING ERRCODE = 'LG006', MESSAGE = 'version is locked';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
CREATE TRIGGER object_locked BEFORE DELETE ON lobgate.object
    FOR EACH ROW WHEN (OLD.legal_hold OR OLD.retention_mode IS NOT NULL) EXECUTE FUNCTION lobgate.refuse_locked();
CREATE TRIGGER object_kept BEFORE UPDATE ON lobgate.object
    FOR EACH ROW WHEN ((OLD.legal_hold OR OLD.retention_mode IS NOT NULL)
        AND (OLD.content_id, OLD.bucket_id, OLD.key, OLD.version_id, OLD.size, OLD.etag)
            IS DISTINCT FROM (NEW.content_id, NEW.bucket_id, NEW.key, NEW.version_id, NEW.size, NEW.etag))
    EXECUTE FUNCTION lobgate.refuse_locked();

-- A retention under way may be made longer; shorter or weaker only if it is GOVERNANCE and bypassed. SQLSTATE LG006.
CREATE FUNCTION lobgate.refuse_weaker_retention() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF lobgate.is_locked(OLD.retention_mode, OLD.retain_until, NULL)
       AND (NEW.retention_mode IS NULL OR NEW.retain_until < OLD.retain_until
            OR NEW.retention_mode <> OLD.retention_mode AND NEW.retention_mode <> 'COMPLIANCE') THEN
        RAISE EXCEPTION USING ERRCODE = 'LG006', MESSAGE = 'retention cannot be weakened';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER object_retained BEFORE UPDATE OF retention_mode, retain_until ON lobgate.object
    FOR EACH ROW WHEN (OLD.retention_mode IS NOT NULL) EXECUTE FUNCTION lobgate.refuse_weaker_retention();

-- As hold_bucket (V0001), the whole row.
CREATE FUNCTION lobgate.hold_bucket_row(p_bucket text) RETURNS lobgate.bucket
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lobgate.bucket_lock_key(p_bucket));
    -- A statement of its own: its snapshot is taken after the lock was granted.
    SELECT * INTO v_bucket FROM lobgate.bucket WHERE name = p_bucket;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LG001', MESSAGE = 'no such bucket';
    END IF;
    RETURN v_bucket;
END
$$;

-- A version as S3 names it: NULL in a bucket that never was versioned.
CREATE FUNCTION lobgate.version_name(p_versioning text, p_version uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN p_versioning IS NOT NULL THEN coalesce(replace(p_version::text, '-', ''), 'null') END $$;

-- The latest version of a key, locked to the end of the transaction; NULL where it has none.
CREATE FUNCTION lobgate.lock_latest(p_bucket integer, p_key text) RETURNS lobgate.object
LANGUAGE plpgsql
AS $$
DECLARE
    v_latest lobgate.object;
BEGIN
    LOOP
        SELECT o.* INTO v_latest FROM lobgate.object o
        WHERE o.bucket_id = p_bucket AND o.key = p_key AND o.is_latest
        FOR UPDATE;
        -- Who waited for a version that a newer one took the place of finds nothing, and has to look again.
        IF FOUND OR NOT EXISTS (SELECT FROM lobgate.object o
                                WHERE o.bucket_id = p_bucket AND o.key = p_key AND o.is_latest) THEN
            RETURN v_latest;
        END IF;
    END LOOP;
END
$$;

-- Puts a new latest version in the place of the present one, which the caller has locked (its id and version id; NULL where
-- there is none), as the bucket's versioning says: beside it, or instead of the null version. p_content NULL: a delete
-- marker. Returns last_modified, or NULL where another creator came first: look again.
CREATE FUNCTION lobgate.replace_latest(
    p_bucket lobgate.bucket, p_key text, p_owner text, p_latest bigint, p_latest_version uuid,
    p_write uuid, p_content uuid, p_size bigint, p_etag text, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea, p_attributes jsonb, p_settings jsonb
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    -- taken after the lock, so that the times of successive versions of a key never run backwards
    v_now   timestamptz := date_trunc('milliseconds', clock_timestamp());
    v_mode  text := p_settings ->> 'retention_mode';
    v_until timestamptz := p_settings ->> 'retain_until';
    v_hold  boolean := p_settings ->> 'legal_hold';
BEGIN
    IF p_bucket.object_lock THEN
        IF v_mode IS NULL AND p_content IS NOT NULL AND p_bucket.retention_mode IS NOT NULL THEN
            v_mode := p_bucket.retention_mode;
            v_until := v_now + make_interval(years => coalesce(p_bucket.retention_years, 0),
                                             days => coalesce(p_bucket.retention_days, 0));
        END IF;
    ELSIF num_nonnulls(v_mode, v_hold) > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'LG007', MESSAGE = 'bucket has no object lock';
    END IF;
    IF p_latest IS NOT NULL THEN
        IF p_bucket.versioning IS NULL THEN
            UPDATE lobgate.object o SET
                content_id = p_content, size = p_size, etag = p_etag, parts_count = p_parts_count,
                checksum_algorithm = p_checksum_algorithm, checksum_type = p_checksum_type, checksum = p_checksum,
                attributes = p_attributes, owner = p_owner, last_modified = v_now,
                tags = p_settings -> 'tags', acl = p_settings -> 'acl'
            WHERE o.id = p_latest;
            RETURN v_now;
        ELSIF p_bucket.versioning = 'Suspended' AND p_latest_version IS NULL THEN
            DELETE FROM lobgate.object o WHERE o.id = p_latest;
        ELSE
            UPDATE lobgate.object o SET is_latest = false WHERE o.id = p_latest;
        END IF;
        IF p_bucket.versioning = 'Suspended' THEN
            DELETE FROM lobgate.object o
            WHERE o.bucket_id = p_bucket.id AND o.key = p_key AND NOT o.is_latest AND o.version_id IS NULL;
        END IF;
    END IF;
    INSERT INTO lobgate.object (bucket_id, key, version_id, is_delete_marker, content_id, size, etag, parts_count,
        checksum_algorithm, checksum_type, checksum, attributes, owner, last_modified,
        tags, acl, retention_mode, retain_until, legal_hold)
    VALUES (p_bucket.id, p_key, CASE p_bucket.versioning WHEN 'Enabled' THEN p_write END, p_content IS NULL,
        p_content, p_size, p_etag, p_parts_count,
        p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_owner, v_now,
        p_settings -> 'tags', p_settings -> 'acl', v_mode, v_until, v_hold)
    ON CONFLICT (bucket_id, key) WHERE is_latest DO NOTHING;
    RETURN CASE WHEN FOUND THEN v_now END;
END
$$;

-- Publishes an object as before (V0003), as a new version where the bucket is versioned.
--   p_write     the version's id, if it gets one
--   p_settings  as upload.settings
-- SQLSTATE, beside those of before: LG007: a lock in a bucket without object lock.
CREATE FUNCTION lobgate.publish_object(
    p_bucket text, p_key text, p_owner text, p_write uuid,
    p_content uuid, p_size bigint, p_etag text, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_settings jsonb, p_if_match text[], p_if_none_match text[],
    OUT last_modified timestamptz, OUT version text
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_latest lobgate.object;
BEGIN
    LOOP
        v_latest := lobgate.lock_latest(v_bucket.id, p_key);
        IF num_nulls(p_if_match, p_if_none_match) < 2 THEN
            PERFORM lobgate.check_conditions(CASE WHEN NOT v_latest.is_delete_marker THEN v_latest.etag END,
                p_if_match, p_if_none_match);
        END IF;
        last_modified := lobgate.replace_latest(v_bucket, p_key, p_owner, v_latest.id, v_latest.version_id,
            p_write, p_content, p_size, p_etag, p_parts_count,
            p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_settings);
        EXIT WHEN last_modified IS NOT NULL;
    END LOOP;
    version := lobgate.version_name(v_bucket.versioning, CASE v_bucket.versioning WHEN 'Enabled' THEN p_write END);
END
$$;

-- Stores a short byte string as before (V0009), as a new version where the bucket is versioned: p_content is its id, then.
CREATE FUNCTION lobgate.put_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_bytes bytea, p_large boolean, p_md5 bytea, p_sha256 bytea, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_settings jsonb, p_if_match text[], p_if_none_match text[],
    OUT last_modified timestamptz, OUT version text
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- first of all locks, here as everywhere
    v_bucket  lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_size    bigint := octet_length(p_bytes);
    v_content uuid;
    v_latest  record;
BEGIN
    LOOP
        -- The row lock keeps the content of the latest version referenced until it is taken over or replaced.
        SELECT o.id, o.version_id, o.is_delete_marker, o.etag, o.size, o.content_id INTO v_latest FROM lobgate.object o
        WHERE o.bucket_id = v_bucket.id AND o.key = p_key AND o.is_latest
        FOR UPDATE;
        -- as in lock_latest
        CONTINUE WHEN NOT FOUND AND v_bucket.versioning IS NOT NULL
            AND EXISTS (SELECT FROM lobgate.object o WHERE o.bucket_id = v_bucket.id AND o.key = p_key AND o.is_latest);
        IF num_nulls(p_if_match, p_if_none_match) < 2 THEN
            PERFORM lobgate.check_conditions(CASE WHEN NOT v_latest.is_delete_marker THEN v_latest.etag END,
                p_if_match, p_if_none_match);
        END IF;
        -- Stored once, however often a creator of the key has to look again.
        IF v_content IS NULL THEN
            v_content := p_content;
            IF v_latest.size = v_size AND v_latest.etag = p_etag AND lobgate.has_bytes(v_latest.content_id, p_bytes) THEN
                v_content := v_latest.content_id;
                PERFORM lobgate.leave_receipt(p_content);
            ELSIF p_large THEN
                INSERT INTO lobgate.content (id, loid, size, md5, sha256)
                VALUES (p_content, lo_from_bytea(0, p_bytes), v_size, p_md5, p_sha256);
            ELSE
                INSERT INTO lobgate.content (id, inline, size, md5, sha256)
                VALUES (p_content, p_bytes, v_size, p_md5, p_sha256);
            END IF;
        END IF;
        last_modified := lobgate.replace_latest(v_bucket, p_key, p_owner, v_latest.id, v_latest.version_id,
            p_content, v_content, v_size, p_etag, NULL,
            p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_settings);
        EXIT WHEN last_modified IS NOT NULL;
    END LOOP;
    version := lobgate.version_name(v_bucket.versioning, CASE v_bucket.versioning WHEN 'Enabled' THEN p_content END);
END
$$;

-- Publishes a large object that this transaction wrote, as before (V0008).
CREATE FUNCTION lobgate.publish_large_object(
    p_loid oid, p_md5 bytea, p_sha256 bytea,
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_size bigint, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_settings jsonb, p_if_match text[], p_if_none_match text[],
    OUT last_modified timestamptz, OUT version text
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    -- first of all locks, here as everywhere
    PERFORM lobgate.hold_bucket(p_bucket);
    INSERT INTO lobgate.content (id, loid, size, md5, sha256) VALUES (p_content, p_loid, p_size, p_md5, p_sha256);
    SELECT p.last_modified, p.version INTO last_modified, version
    FROM lobgate.publish_object(p_bucket, p_key, p_owner, p_content, p_content, p_size, p_etag, NULL,
        p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_settings, p_if_match, p_if_none_match) p;
END
$$;

-- Several short byte strings at once, as before (V0010), each as a new version where the bucket is versioned.
CREATE FUNCTION lobgate.put_objects(
    p_bucket text, p_keys text[], p_owners text[], p_contents uuid[], p_bytes bytea[], p_md5 bytea[], p_sha256 bytea[],
    p_etags text[], p_checksum_algorithms text[], p_checksum_types text[], p_checksums bytea[], p_attributes jsonb[],
    p_settings jsonb[]
) RETURNS TABLE (ordinal bigint, last_modified timestamptz, version text)
LANGUAGE plpgsql
-- Whoever waits longer for a key lets the others go first: the caller stores each by a statement of its own then.
SET lock_timeout = '200ms'
AS $$
#variable_conflict use_column
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    -- Contents to refer to instead of those in p_contents: NULL where none has the bytes.
    v_same   uuid[];
    v_look   record;
BEGIN
    IF v_bucket.versioning IS NOT NULL THEN
        FOR v_look IN
            SELECT w.nth FROM unnest(p_keys) WITH ORDINALITY AS w (key, nth) ORDER BY w.key COLLATE "C"
        LOOP
            RETURN QUERY
            SELECT v_look.nth, p.last_modified, p.version
            FROM lobgate.put_object(p_bucket, p_keys[v_look.nth], p_owners[v_look.nth], p_contents[v_look.nth],
                p_bytes[v_look.nth], false, p_md5[v_look.nth], p_sha256[v_look.nth], p_etags[v_look.nth],
                p_checksum_algorithms[v_look.nth], p_checksum_types[v_look.nth], p_checksums[v_look.nth],
                p_attributes[v_look.nth], p_settings[v_look.nth], NULL, NULL) p;
        END LOOP;
        RETURN;
    END IF;
    -- All live versions are locked, in the order of the keys: so two such calls meet in the same order, whatever each finds.
    -- Looked up one by one: LIMIT keeps the planner from reading the table as a whole, whatever it believes of its size
    -- when the plan is made.
    FOR v_look IN
        SELECT live.content_id, w.nth, live.etag = w.etag AND live.size = octet_length(p_bytes[w.nth]) AS may_be_same
        FROM (SELECT u.* FROM unnest(p_keys, p_etags) WITH ORDINALITY AS u (key, etag, nth)
              ORDER BY u.key COLLATE "C" OFFSET 0) w
        CROSS JOIN LATERAL (
            SELECT o.content_id, o.etag, o.size FROM lobgate.object o
            WHERE o.bucket_id = v_bucket.id AND o.key = w.key AND o.is_latest
            LIMIT 1 FOR UPDATE) live
    LOOP
        IF v_look.may_be_same AND lobgate.has_bytes(v_look.content_id, p_bytes[v_look.nth]) THEN
            v_same[v_look.nth] := v_look.content_id;
            PERFORM lobgate.leave_receipt(p_contents[v_look.nth]);
        END IF;
    END LOOP;
    RETURN QUERY
    WITH item AS MATERIALIZED (
        SELECT w.*, v_same[w.nth] AS same
        FROM unnest(p_keys, p_owners, p_contents, p_bytes, p_md5, p_sha256, p_etags, p_checksum_algorithms,
                p_checksum_types, p_checksums, p_attributes, p_settings)
             WITH ORDINALITY AS w (key, owner, content, bytes, md5, sha256, etag, checksum_algorithm, checksum_type,
                checksum, attributes, settings, nth)
        ORDER BY w.key COLLATE "C"
    ), stored AS (
        INSERT INTO lobgate.content (id, inline, size, md5, sha256)
        SELECT i.content, i.bytes, octet_length(i.bytes), i.md5, i.sha256 FROM item i WHERE i.same IS NULL
    ), published AS (
        INSERT INTO lobgate.object AS o (bucket_id, key, content_id, size, etag, checksum_algorithm, checksum_type,
            checksum, attributes, owner, last_modified, tags, acl)
        SELECT v_bucket.id, i.key, coalesce(i.same, i.content), octet_length(i.bytes), i.etag, i.checksum_algorithm,
            i.checksum_type, i.checksum, i.attributes, i.owner, date_trunc('milliseconds', clock_timestamp()),
            i.settings -> 'tags', i.settings -> 'acl'
        FROM item i
        ON CONFLICT (bucket_id, key) WHERE is_latest DO UPDATE SET
            content_id = excluded.content_id, size = excluded.size, etag = excluded.etag, parts_count = NULL,
            checksum_algorithm = excluded.checksum_algorithm, checksum_type = excluded.checksum_type,
            checksum = excluded.checksum, attributes = excluded.attributes, owner = excluded.owner,
            tags = excluded.tags, acl = excluded.acl,
            -- taken after the lock, so that the times of successive versions of a key never run backwards
            last_modified = date_trunc('milliseconds', clock_timestamp())
        RETURNING o.key, o.last_modified
    )
    SELECT i.nth, p.last_modified, NULL::text FROM published p JOIN item i ON i.key = p.key;
END
$$;

-- Deletes keys, or versions of them; the outcomes come back in the order of the keys. The other arrays are as long as p_keys.
--   p_versions  NULL: the latest version, which in a versioned bucket a delete marker takes the place of
--   p_markers   ids for delete markers
--   p_if_match  ETags parted by commas, or *;  a delete marker counts as absent
--   p_bypass    whether GOVERNANCE retention may be bypassed
-- Outcomes: NULL for deleted or absent, LG002: a condition on what is absent, LG003: a condition does not hold, LG006: locked.
-- version and is_delete_marker tell of the delete marker that was made, or of the version that was named.
CREATE FUNCTION lobgate.delete_objects(
    p_bucket text, p_owner text, p_keys text[], p_versions uuid[], p_markers uuid[],
    p_if_match text[], p_if_size bigint[], p_if_last_modified timestamptz[], p_bypass boolean
) RETURNS TABLE (ordinal integer, outcome text, version text, is_delete_marker boolean)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_latest lobgate.object;
    v_target lobgate.object;
    v_want   record;
    v_ids    bigint[];
BEGIN
    IF v_bucket.versioning IS NULL AND num_nonnulls(VARIADIC p_versions) + num_nonnulls(VARIADIC p_if_match)
       + num_nonnulls(VARIADIC p_if_size) + num_nonnulls(VARIADIC p_if_last_modified) = 0 THEN
        v_ids := ARRAY (
            SELECT o.id FROM lobgate.object o
            WHERE o.bucket_id = v_bucket.id AND o.key = ANY (p_keys) AND o.is_latest
            ORDER BY o.key FOR UPDATE);
        DELETE FROM lobgate.object o WHERE o.id = ANY (v_ids);
        RETURN QUERY SELECT n, NULL::text, NULL::text, false FROM generate_series(1, cardinality(p_keys)) n;
        RETURN;
    END IF;
    IF p_bypass THEN
        PERFORM set_config('lobgate.bypass_governance', 'on', true);
    END IF;
    FOR v_want IN
        SELECT w.*
        FROM unnest(p_keys, p_versions, p_markers, p_if_match, p_if_size, p_if_last_modified)
             WITH ORDINALITY AS w (key, version, marker, if_match, if_size, if_last_modified, ord)
        ORDER BY w.key COLLATE "C", w.ord
    LOOP
        ordinal := v_want.ord;
        outcome := NULL;
        version := NULL;
        is_delete_marker := false;
        <<look>>
        LOOP
            v_latest := lobgate.lock_latest(v_bucket.id, v_want.key);
            v_target := v_latest;
            IF v_want.version IS NOT NULL
               AND coalesce(v_latest.version_id, '00000000-0000-0000-0000-000000000000') <> v_want.version THEN
                -- Under the lock of the latest version no past one comes or goes.
                SELECT o.* INTO v_target FROM lobgate.object o
                WHERE o.bucket_id = v_bucket.id AND o.key = v_want.key AND NOT o.is_latest
                  AND coalesce(o.version_id, '00000000-0000-0000-0000-000000000000') = v_want.version
                FOR UPDATE;
            END IF;
            IF num_nonnulls(v_want.if_match, v_want.if_size, v_want.if_last_modified) > 0 THEN
                IF v_target.id IS NULL OR v_target.is_delete_marker THEN
                    outcome := 'LG002';
                ELSIF NOT coalesce(lobgate.etag_in(v_target.etag, string_to_array(v_want.if_match, ',')), true)
                      OR v_target.size IS DISTINCT FROM coalesce(v_want.if_size, v_target.size)
                      OR date_trunc('second', v_target.last_modified)
                         IS DISTINCT FROM date_trunc('second', coalesce(v_want.if_last_modified, v_target.last_modified)) THEN
                    outcome := 'LG003';
                END IF;
                EXIT look WHEN outcome IS NOT NULL;
            END IF;
            IF v_want.version IS NULL AND v_bucket.versioning IS NOT NULL THEN
                CONTINUE look WHEN lobgate.replace_latest(v_bucket, v_want.key, p_owner, v_latest.id, v_latest.version_id,
                    v_want.marker, NULL, 0, '', NULL, NULL, NULL, NULL, NULL, NULL) IS NULL;
                version := lobgate.version_name(v_bucket.versioning,
                    CASE v_bucket.versioning WHEN 'Enabled' THEN v_want.marker END);
                is_delete_marker := true;
                EXIT look;
            END IF;
            IF v_want.version IS NOT NULL THEN
                version := lobgate.version_name('', nullif(v_want.version, '00000000-0000-0000-0000-000000000000'));
            END IF;
            EXIT look WHEN v_target.id IS NULL;
            is_delete_marker := v_target.is_delete_marker;
            IF lobgate.is_locked(v_target.retention_mode, v_target.retain_until, v_target.legal_hold) THEN
                outcome := 'LG006';
                EXIT look;
            END IF;
            DELETE FROM lobgate.object o WHERE o.id = v_target.id;
            IF v_target.is_latest AND v_bucket.versioning IS NOT NULL THEN
                UPDATE lobgate.object o SET is_latest = true
                WHERE o.id = (SELECT p.id FROM lobgate.object p
                              WHERE p.bucket_id = v_bucket.id AND p.key = v_want.key AND NOT p.is_latest
                              ORDER BY p.id DESC LIMIT 1);
            END IF;
            EXIT look;
        END LOOP;
        RETURN NEXT;
    END LOOP;
END
$$;

-- The row of a version that exists and has bytes, locked. SQLSTATE LG002: no such key, LG009: no such version,
-- LG010: a delete marker was named.
CREATE FUNCTION lobgate.lock_version(p_bucket integer, p_key text, p_version uuid) RETURNS lobgate.object
LANGUAGE plpgsql
AS $$
DECLARE
    v_target lobgate.object := lobgate.lock_latest(p_bucket, p_key);
BEGIN
    IF p_version IS NULL THEN
        IF v_target.id IS NULL OR v_target.is_delete_marker THEN
            RAISE EXCEPTION USING ERRCODE = 'LG002', MESSAGE = 'no such key';
        END IF;
        RETURN v_target;
    END IF;
    IF coalesce(v_target.version_id, '00000000-0000-0000-0000-000000000000') <> p_version OR v_target.id IS NULL THEN
        SELECT o.* INTO v_target FROM lobgate.object o
        WHERE o.bucket_id = p_bucket AND o.key = p_key AND NOT o.is_latest
          AND coalesce(o.version_id, '00000000-0000-0000-0000-000000000000') = p_version
        FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'LG009', MESSAGE = 'no such version';
        END IF;
    END IF;
    IF v_target.is_delete_marker THEN
        RAISE EXCEPTION USING ERRCODE = 'LG010', MESSAGE = 'the version is a delete marker';
    END IF;
    RETURN v_target;
END
$$;

-- Each of these changes one thing of a version and returns the version's name. SQLSTATE as lock_version; LG006: it is
-- locked, LG007: the bucket has no object lock.
CREATE FUNCTION lobgate.set_tags(p_bucket text, p_key text, p_version uuid, p_tags jsonb) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_target lobgate.object := lobgate.lock_version(v_bucket.id, p_key, p_version);
BEGIN
    UPDATE lobgate.object o SET tags = p_tags WHERE o.id = v_target.id;
    RETURN lobgate.version_name(v_bucket.versioning, v_target.version_id);
END
$$;

CREATE FUNCTION lobgate.set_acl(p_bucket text, p_key text, p_version uuid, p_acl jsonb) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_target lobgate.object := lobgate.lock_version(v_bucket.id, p_key, p_version);
BEGIN
    UPDATE lobgate.object o SET acl = p_acl WHERE o.id = v_target.id;
    RETURN lobgate.version_name(v_bucket.versioning, v_target.version_id);
END
$$;

CREATE FUNCTION lobgate.set_retention(
    p_bucket text, p_key text, p_version uuid, p_mode text, p_until timestamptz, p_bypass boolean
) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_target lobgate.object;
BEGIN
    IF NOT v_bucket.object_lock THEN
        RAISE EXCEPTION USING ERRCODE = 'LG007', MESSAGE = 'bucket has no object lock';
    END IF;
    v_target := lobgate.lock_version(v_bucket.id, p_key, p_version);
    IF p_bypass THEN
        PERFORM set_config('lobgate.bypass_governance', 'on', true);
    END IF;
    UPDATE lobgate.object o SET retention_mode = p_mode, retain_until = p_until WHERE o.id = v_target.id;
    RETURN lobgate.version_name(v_bucket.versioning, v_target.version_id);
END
$$;

CREATE FUNCTION lobgate.set_legal_hold(p_bucket text, p_key text, p_version uuid, p_hold boolean) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_target lobgate.object;
BEGIN
    IF NOT v_bucket.object_lock THEN
        RAISE EXCEPTION USING ERRCODE = 'LG007', MESSAGE = 'bucket has no object lock';
    END IF;
    v_target := lobgate.lock_version(v_bucket.id, p_key, p_version);
    UPDATE lobgate.object o SET legal_hold = p_hold WHERE o.id = v_target.id;
    RETURN lobgate.version_name(v_bucket.versioning, v_target.version_id);
END
$$;

-- Sets a bucket's versioning, when no writer is at work in it. SQLSTATE LG001: no such bucket, LG008: it has object lock.
CREATE FUNCTION lobgate.set_versioning(p_bucket text, p_state text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket;
BEGIN
    PERFORM pg_advisory_xact_lock(lobgate.bucket_lock_key(p_bucket));
    v_bucket := lobgate.hold_bucket_row(p_bucket);
    IF v_bucket.object_lock AND p_state <> 'Enabled' THEN
        RAISE EXCEPTION USING ERRCODE = 'LG008', MESSAGE = 'bucket has object lock';
    END IF;
    UPDATE lobgate.bucket b SET versioning = p_state WHERE b.id = v_bucket.id;
END
$$;

-- Switches object lock on, for ever, and sets what retention new versions get. SQLSTATE LG001: no such bucket,
-- LG008: versioning is not enabled.
CREATE FUNCTION lobgate.set_object_lock(p_bucket text, p_mode text, p_days integer, p_years integer) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket;
BEGIN
    PERFORM pg_advisory_xact_lock(lobgate.bucket_lock_key(p_bucket));
    v_bucket := lobgate.hold_bucket_row(p_bucket);
    IF v_bucket.versioning IS DISTINCT FROM 'Enabled' THEN
        RAISE EXCEPTION USING ERRCODE = 'LG008', MESSAGE = 'versioning is not enabled';
    END IF;
    UPDATE lobgate.bucket b SET object_lock = true, retention_mode = p_mode, retention_days = p_days, retention_years = p_years
    WHERE b.id = v_bucket.id;
END
$$;

-- A page of the versions of a bucket with keys in p_from..p_end (exclusive), in the order of keys and from the newest to the
-- oldest version; with a delimiter also the common prefixes. Of the key p_from only versions older than p_before, the id of
-- one of its rows; NULL: all. A loose index scan as in V0006; a STABLE function sees one snapshot. Rows of common prefixes
-- have id NULL.
CREATE FUNCTION lobgate.list_versions(
    p_bucket integer, p_prefix text, p_delimiter text, p_from text, p_before bigint, p_end text, p_limit integer
) RETURNS TABLE (name text, id bigint, version_id uuid, is_latest boolean, is_delete_marker boolean, size bigint, etag text,
                 last_modified timestamptz, owner text, storage_class text, checksum_algorithm text, checksum_type text)
LANGUAGE plpgsql STABLE ROWS 1000
AS $$
#variable_conflict use_column
DECLARE
    v_from   text COLLATE "C" := p_from;
    v_before bigint := p_before;
    -- past versions of p_from are looked up on their own; keys have no NUL, so nothing lies between it and this
    v_past   text COLLATE "C" := CASE WHEN p_before IS NULL THEN p_from ELSE p_from || chr(1) END;
    v_count  integer := 0;
    -- Few rows at first: each common prefix is one step.
    v_step   integer := 16;
    v_seen   integer;
    v_at     integer;
    v_last   record;
    v_row    record;
    v_jumped boolean;
BEGIN
    WHILE v_count < p_limit LOOP
        v_jumped := false;
        v_seen := 0;
        FOR v_row IN
            SELECT u.* FROM (
                (SELECT o.* FROM lobgate.object o
                 WHERE o.bucket_id = p_bucket AND o.is_latest AND o.key >= v_from AND o.key < p_end
                   AND (o.key > v_from OR v_before IS NULL OR o.id < v_before)
                 ORDER BY o.key LIMIT v_step)
                UNION ALL
                (SELECT o.* FROM lobgate.object o
                 WHERE o.bucket_id = p_bucket AND NOT o.is_latest AND o.key = v_from AND o.id < v_before
                 ORDER BY o.id DESC LIMIT v_step)
                UNION ALL
                (SELECT o.* FROM lobgate.object o
                 WHERE o.bucket_id = p_bucket AND NOT o.is_latest AND o.key >= v_past AND o.key < p_end
                 ORDER BY o.key, o.id DESC LIMIT v_step)) u
            ORDER BY u.key, u.id DESC LIMIT least(v_step, p_limit - v_count)
        LOOP
            v_seen := v_seen + 1;
            v_count := v_count + 1;
            v_last := v_row;
            v_at := CASE WHEN p_delimiter <> '' THEN strpos(substr(v_row.key, length(p_prefix) + 1), p_delimiter) ELSE 0 END;
            IF v_at > 0 THEN
                name := left(v_row.key, length(p_prefix) + v_at + length(p_delimiter) - 1);
                id := NULL; version_id := NULL; is_latest := NULL; is_delete_marker := NULL; size := NULL; etag := NULL;
                last_modified := NULL; owner := NULL; storage_class := NULL; checksum_algorithm := NULL;
                checksum_type := NULL;
                RETURN NEXT;
                v_from := lobgate.prefix_end(name);
                IF v_from IS NULL THEN
                    RETURN;
                END IF;
                v_past := v_from;
                v_before := NULL;
                v_step := 16;
                v_jumped := true;
                EXIT;
            END IF;
            name := v_row.key; id := v_row.id; version_id := v_row.version_id; is_latest := v_row.is_latest;
            is_delete_marker := v_row.is_delete_marker; size := v_row.size; etag := v_row.etag;
            last_modified := v_row.last_modified; owner := v_row.owner;
            storage_class := v_row.attributes ->> 'storage_class';
            checksum_algorithm := v_row.checksum_algorithm; checksum_type := v_row.checksum_type;
            RETURN NEXT;
        END LOOP;
        IF NOT v_jumped THEN
            EXIT WHEN v_seen < v_step;
            v_from := v_last.key;
            v_past := v_last.key || chr(1);
            v_before := v_last.id;
            v_step := least(v_step * 4, 1024);
        END IF;
    END LOOP;
END
$$;

-- For gateways of the version before, which may run beside newer ones: as these functions were, by those above.
CREATE OR REPLACE FUNCTION lobgate.publish_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_size bigint, p_etag text, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE sql
AS $$
    SELECT p.last_modified FROM lobgate.publish_object(p_bucket, p_key, p_owner, gen_random_uuid(), p_content, p_size, p_etag,
        p_parts_count, p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, NULL::jsonb, p_if_match,
        p_if_none_match) p
$$;

CREATE OR REPLACE FUNCTION lobgate.put_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_bytes bytea, p_large boolean, p_md5 bytea, p_sha256 bytea, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE sql
AS $$
    SELECT p.last_modified FROM lobgate.put_object(p_bucket, p_key, p_owner, p_content, p_bytes, p_large, p_md5, p_sha256,
        p_etag, p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, NULL::jsonb, p_if_match,
        p_if_none_match) p
$$;

CREATE OR REPLACE FUNCTION lobgate.publish_large_object(
    p_loid oid, p_md5 bytea, p_sha256 bytea,
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_size bigint, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE sql
AS $$
    SELECT p.last_modified FROM lobgate.publish_large_object(p_loid, p_md5, p_sha256, p_bucket, p_key, p_owner, p_content,
        p_size, p_etag, p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, NULL::jsonb, p_if_match,
        p_if_none_match) p
$$;

CREATE OR REPLACE FUNCTION lobgate.put_objects(
    p_bucket text, p_keys text[], p_owners text[], p_contents uuid[], p_bytes bytea[], p_md5 bytea[], p_sha256 bytea[],
    p_etags text[], p_checksum_algorithms text[], p_checksum_types text[], p_checksums bytea[], p_attributes jsonb[]
) RETURNS TABLE (ordinal bigint, last_modified timestamptz)
LANGUAGE sql
SET lock_timeout = '200ms'
AS $$
    SELECT p.ordinal, p.last_modified
    FROM lobgate.put_objects(p_bucket, p_keys, p_owners, p_contents, p_bytes, p_md5, p_sha256, p_etags,
        p_checksum_algorithms, p_checksum_types, p_checksums, p_attributes, NULL::jsonb[]) p
$$;

CREATE OR REPLACE FUNCTION lobgate.delete_objects(
    p_bucket text, p_keys text[], p_if_match text[], p_if_size bigint[], p_if_last_modified timestamptz[]
) RETURNS TABLE (ordinal integer, outcome text)
LANGUAGE sql
AS $$
    SELECT d.ordinal, d.outcome
    FROM lobgate.delete_objects(p_bucket, (SELECT b.owner FROM lobgate.bucket b WHERE b.name = p_bucket), p_keys,
        ARRAY (SELECT NULL::uuid FROM unnest(p_keys)), ARRAY (SELECT gen_random_uuid() FROM unnest(p_keys)),
        p_if_match, p_if_size, p_if_last_modified, false) d
$$;
DROP FUNCTION lobgate.replace_live(integer, text, text, bigint, uuid, bigint, text, integer, text, text, bytea, jsonb);
