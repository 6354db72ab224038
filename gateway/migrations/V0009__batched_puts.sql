-- Small writes that come at the same time share a statement and a COMMIT, and bytes are compared instead of their SHA-256,
-- which then need not be computed for bodies that are not signed.

-- As before (V0008). Where the live version of the key has the same bytes, its content is kept and none is written but a
-- receipt under p_content. Equal size and ETag come first: only then are bytes looked at.
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
            IF v_live.size = v_size AND v_live.etag = p_etag AND lobgate.has_bytes(v_live.content_id, p_bytes) THEN
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

-- Whether a content that the caller keeps referenced consists of these bytes.
CREATE FUNCTION lobgate.has_bytes(p_content uuid, p_bytes bytea) RETURNS boolean
LANGUAGE sql
AS $$
    SELECT coalesce(CASE WHEN c.loid IS NULL THEN c.inline ELSE lo_get(c.loid) END = p_bytes, false)
    FROM lobgate.content c WHERE c.id = p_content
$$;

-- As put_object, for several keys of a bucket at once, all different, without conditions and inline. All of them are
-- stored or none (SQLSTATE 55P03: a key is locked for long). Keys are taken in byte order, so that two such calls do not deadlock over them.
CREATE FUNCTION lobgate.put_objects(
    p_bucket text, p_keys text[], p_owners text[], p_contents uuid[], p_bytes bytea[], p_md5 bytea[], p_sha256 bytea[],
    p_etags text[], p_checksum_algorithms text[], p_checksum_types text[], p_checksums bytea[], p_attributes jsonb[]
) RETURNS TABLE (ordinal bigint, last_modified timestamptz)
LANGUAGE plpgsql
-- Whoever waits longer for a key lets the others go first: the caller stores each by a statement of its own then.
SET lock_timeout = '200ms'
AS $$
DECLARE
    v_bucket integer := lobgate.hold_bucket(p_bucket);
    -- Contents to refer to instead of those in p_contents: NULL where none has the bytes.
    v_same   uuid[];
    v_look   record;
BEGIN
    -- Sorted first, then looked up one by one: LIMIT keeps the planner from reading the table as a whole, whatever it
    -- believes of its size when the plan is made.
    FOR v_look IN
        SELECT live.content_id, w.nth
        FROM (SELECT u.* FROM unnest(p_keys, p_etags) WITH ORDINALITY AS u (key, etag, nth)
              ORDER BY u.key COLLATE "C" OFFSET 0) w
        CROSS JOIN LATERAL (
            SELECT o.content_id FROM lobgate.object o
            WHERE o.bucket_id = v_bucket AND o.key = w.key AND o.is_latest AND NOT o.is_delete_marker
              AND o.etag = w.etag
            LIMIT 1 FOR UPDATE) live
    LOOP
        IF lobgate.has_bytes(v_look.content_id, p_bytes[v_look.nth]) THEN
            v_same[v_look.nth] := v_look.content_id;
            PERFORM lobgate.leave_receipt(p_contents[v_look.nth]);
        END IF;
    END LOOP;
    RETURN QUERY
    WITH item AS MATERIALIZED (
        SELECT w.*, v_same[w.nth] AS same
        FROM unnest(p_keys, p_owners, p_contents, p_bytes, p_md5, p_sha256, p_etags, p_checksum_algorithms,
                p_checksum_types, p_checksums, p_attributes)
             WITH ORDINALITY AS w (key, owner, content, bytes, md5, sha256, etag, checksum_algorithm, checksum_type,
                checksum, attributes, nth)
        ORDER BY w.key COLLATE "C"
    ), stored AS (
        INSERT INTO lobgate.content (id, inline, size, md5, sha256)
        SELECT i.content, i.bytes, octet_length(i.bytes), i.md5, i.sha256 FROM item i WHERE i.same IS NULL
    ), published AS (
        INSERT INTO lobgate.object AS o (bucket_id, key, content_id, size, etag, checksum_algorithm, checksum_type,
            checksum, attributes, owner, last_modified)
        SELECT v_bucket, i.key, coalesce(i.same, i.content), octet_length(i.bytes), i.etag, i.checksum_algorithm,
            i.checksum_type, i.checksum, i.attributes, i.owner, date_trunc('milliseconds', clock_timestamp())
        FROM item i
        ON CONFLICT (bucket_id, key) WHERE is_latest AND NOT is_delete_marker DO UPDATE SET
            content_id = excluded.content_id, size = excluded.size, etag = excluded.etag, parts_count = NULL,
            checksum_algorithm = excluded.checksum_algorithm, checksum_type = excluded.checksum_type,
            checksum = excluded.checksum, attributes = excluded.attributes, owner = excluded.owner,
            -- taken after the lock, so that the times of successive versions of a key never run backwards
            last_modified = date_trunc('milliseconds', clock_timestamp())
        RETURNING o.key, o.last_modified
    )
    SELECT i.nth, p.last_modified FROM published p JOIN item i ON i.key = p.key;
END
$$;
