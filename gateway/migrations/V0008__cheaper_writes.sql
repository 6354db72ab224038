-- What a small write costs the server, halved. Measured per put: the CHECK constraints were the greater part of it, since
-- PostgreSQL reads and compiles each of them anew for every statement (ExecRelCheck, execMain.c).

-- One constraint per table that calls a function: its expression is a single node, and the function is compiled once per
-- session. Rows that are there satisfied the former constraints, so nothing is scanned.
CREATE FUNCTION lobgate.content_is_sound(
    p_loid oid, p_inline bytea, p_size bigint, p_md5 bytea, p_sha256 bytea
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN p_size >= 0
       AND (p_loid IS NULL OR p_inline IS NULL)
       AND (p_inline IS NULL OR octet_length(p_inline) = p_size)
       -- a composite has no digest of its own, its parts have
       AND (p_md5 IS NULL) = (p_loid IS NULL AND p_inline IS NULL)
       AND (p_md5 IS NULL OR octet_length(p_md5) = 16)
       AND (p_sha256 IS NULL OR octet_length(p_sha256) = 32);
END
$$;
ALTER TABLE lobgate.content
    DROP CONSTRAINT content_size_check,
    DROP CONSTRAINT content_md5_check,
    DROP CONSTRAINT content_sha256_check,
    DROP CONSTRAINT content_check,
    DROP CONSTRAINT content_check1,
    DROP CONSTRAINT content_check2,
    ADD CONSTRAINT content_sound CHECK (lobgate.content_is_sound(loid, inline, size, md5, sha256)) NOT VALID;

CREATE FUNCTION lobgate.object_is_sound(
    p_key text, p_is_delete_marker boolean, p_content uuid, p_size bigint, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea
) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN octet_length(p_key) BETWEEN 1 AND 1024
       AND p_size >= 0
       AND p_is_delete_marker = (p_content IS NULL)
       AND (p_parts_count IS NULL OR p_parts_count BETWEEN 1 AND 10000)
       AND num_nulls(p_checksum_algorithm, p_checksum_type, p_checksum) IN (0, 3);
END
$$;
ALTER TABLE lobgate.object
    DROP CONSTRAINT object_key_check,
    DROP CONSTRAINT object_size_check,
    DROP CONSTRAINT object_parts_count_check,
    DROP CONSTRAINT object_check,
    DROP CONSTRAINT object_check1,
    ADD CONSTRAINT object_sound CHECK (lobgate.object_is_sound(key, is_delete_marker, content_id, size, parts_count,
        checksum_algorithm, checksum_type, checksum)) NOT VALID;

-- Only large contents have an entry: those of inline contents, all NULL, met on the same page.
ALTER TABLE lobgate.content DROP CONSTRAINT content_loid_key;
CREATE UNIQUE INDEX content_loid ON lobgate.content (loid) WHERE loid IS NOT NULL;

-- Where in a composite a range begins, found without looking at all of its parts.
CREATE INDEX content_part_start ON lobgate.content_part (composite_id, start);

-- Whether the ETag of a live version, NULL where there is none, satisfies If-Match and If-None-Match.
-- SQLSTATE LG002: If-Match on a key without object, LG003: a condition does not hold.
CREATE FUNCTION lobgate.check_conditions(p_etag text, p_if_match text[], p_if_none_match text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_etag IS NULL THEN
        IF p_if_match IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'LG002', MESSAGE = 'no such key';
        END IF;
    ELSIF (p_if_match IS NOT NULL AND NOT lobgate.etag_in(p_etag, p_if_match))
       OR (p_if_none_match IS NOT NULL AND lobgate.etag_in(p_etag, p_if_none_match)) THEN
        RAISE EXCEPTION USING ERRCODE = 'LG003', MESSAGE = 'precondition failed';
    END IF;
END
$$;

-- Makes a content the live version of a key. p_live is the id of the version to replace, which the caller has locked;
-- NULL where there was none. Returns last_modified, or NULL where another creator came first: look again.
CREATE FUNCTION lobgate.replace_live(
    p_bucket integer, p_key text, p_owner text, p_live bigint,
    p_content uuid, p_size bigint, p_etag text, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea, p_attributes jsonb
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    -- taken after the lock, so that the times of successive versions of a key never run backwards
    v_now timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
    IF p_live IS NOT NULL THEN
        UPDATE lobgate.object o SET
            content_id = p_content, size = p_size, etag = p_etag, parts_count = p_parts_count,
            checksum_algorithm = p_checksum_algorithm, checksum_type = p_checksum_type, checksum = p_checksum,
            attributes = p_attributes, owner = p_owner, last_modified = v_now
        WHERE o.id = p_live;
        RETURN v_now;
    END IF;
    INSERT INTO lobgate.object (bucket_id, key, content_id, size, etag, parts_count,
        checksum_algorithm, checksum_type, checksum, attributes, owner, last_modified)
    VALUES (p_bucket, p_key, p_content, p_size, p_etag, p_parts_count,
        p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_owner, v_now)
    ON CONFLICT (bucket_id, key) WHERE is_latest AND NOT is_delete_marker DO NOTHING;
    RETURN CASE WHEN FOUND THEN v_now END;
END
$$;

-- As before (V0003), of the parts above.
CREATE OR REPLACE FUNCTION lobgate.publish_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_size bigint, p_etag text, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket integer := lobgate.hold_bucket(p_bucket);
    v_now    timestamptz;
    v_live   record;
BEGIN
    LOOP
        SELECT o.id, o.etag INTO v_live FROM lobgate.object o
        WHERE o.bucket_id = v_bucket AND o.key = p_key AND o.is_latest AND NOT o.is_delete_marker
        FOR UPDATE;
        IF num_nulls(p_if_match, p_if_none_match) < 2 THEN
            PERFORM lobgate.check_conditions(v_live.etag, p_if_match, p_if_none_match);
        END IF;
        v_now := lobgate.replace_live(v_bucket, p_key, p_owner, v_live.id, p_content, p_size, p_etag, p_parts_count,
            p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes);
        IF v_now IS NOT NULL THEN
            RETURN v_now;
        END IF;
    END LOOP;
END
$$;

-- As before (V0003), with one look at the live version and one at the bucket.
CREATE OR REPLACE FUNCTION lobgate.put_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_bytes bytea, p_large boolean, p_md5 bytea, p_sha256 bytea, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    -- first of all locks, here as everywhere
    v_bucket  integer := lobgate.hold_bucket(p_bucket);
    v_size    bigint := octet_length(p_bytes);
    v_content uuid;
    v_now     timestamptz;
    v_live    record;
BEGIN
    LOOP
        -- The row lock keeps the content of the live version referenced until it is taken over or replaced.
        SELECT o.id, o.etag, o.size, o.content_id INTO v_live FROM lobgate.object o
        WHERE o.bucket_id = v_bucket AND o.key = p_key AND o.is_latest AND NOT o.is_delete_marker
        FOR UPDATE;
        IF num_nulls(p_if_match, p_if_none_match) < 2 THEN
            PERFORM lobgate.check_conditions(v_live.etag, p_if_match, p_if_none_match);
        END IF;
        -- Stored once, however often a creator of the key has to look again.
        IF v_content IS NULL THEN
            v_content := p_content;
            -- equal sizes first: few puts need to look at the content
            IF v_live.size = v_size
               AND EXISTS (SELECT FROM lobgate.content c WHERE c.id = v_live.content_id AND c.sha256 = p_sha256) THEN
                v_content := v_live.content_id;
                PERFORM lobgate.leave_receipt(p_content);
            ELSIF p_large THEN
                INSERT INTO lobgate.content (id, loid, size, md5, sha256)
                VALUES (p_content, lo_from_bytea(0, p_bytes), v_size, p_md5, p_sha256);
            ELSE
                INSERT INTO lobgate.content (id, inline, size, md5, sha256)
                VALUES (p_content, p_bytes, v_size, p_md5, p_sha256);
            END IF;
        END IF;
        v_now := lobgate.replace_live(v_bucket, p_key, p_owner, v_live.id, v_content, v_size, p_etag, NULL,
            p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes);
        IF v_now IS NOT NULL THEN
            RETURN v_now;
        END IF;
    END LOOP;
END
$$;

-- Publishes a large object that this transaction wrote, in one round trip.
CREATE FUNCTION lobgate.publish_large_object(
    p_loid oid, p_md5 bytea, p_sha256 bytea,
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_size bigint, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
BEGIN
    -- first of all locks, here as everywhere
    PERFORM lobgate.hold_bucket(p_bucket);
    INSERT INTO lobgate.content (id, loid, size, md5, sha256) VALUES (p_content, p_loid, p_size, p_md5, p_sha256);
    RETURN lobgate.publish_object(p_bucket, p_key, p_owner, p_content, p_size, p_etag, NULL,
        p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_if_match, p_if_none_match);
END
$$;

-- The same for a part of a multipart upload.
CREATE FUNCTION lobgate.publish_large_part(
    p_loid oid, p_sha256 bytea,
    p_bucket text, p_key text, p_upload uuid, p_part_number integer,
    p_content uuid, p_size bigint, p_md5 bytea, p_checksum bytea
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM lobgate.hold_bucket(p_bucket);
    INSERT INTO lobgate.content (id, loid, size, md5, sha256) VALUES (p_content, p_loid, p_size, p_md5, p_sha256);
    RETURN lobgate.publish_part(p_bucket, p_key, p_upload, p_part_number, p_content, p_size, p_md5, p_checksum);
END
$$;
