-- Two batches of puts could wait for each other: only live versions of equal ETag were locked in the order of the keys, the
-- others in the order in which they were replaced. All are now.

CREATE OR REPLACE FUNCTION lobgate.put_objects(
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
    -- All live versions are locked, in the order of the keys: so two such calls meet in the same order, whatever each finds.
    -- Looked up one by one: LIMIT keeps the planner from reading the table as a whole, whatever it believes of its size
    -- when the plan is made.
    FOR v_look IN
        SELECT live.content_id, w.nth, live.etag = w.etag AND live.size = octet_length(p_bytes[w.nth]) AS may_be_same
        FROM (SELECT u.* FROM unnest(p_keys, p_etags) WITH ORDINALITY AS u (key, etag, nth)
              ORDER BY u.key COLLATE "C" OFFSET 0) w
        CROSS JOIN LATERAL (
            SELECT o.content_id, o.etag, o.size FROM lobgate.object o
            WHERE o.bucket_id = v_bucket AND o.key = w.key AND o.is_latest AND NOT o.is_delete_marker
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
