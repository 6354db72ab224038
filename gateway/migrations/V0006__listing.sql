-- The least text that sorts after every text that begins with p_prefix, or NULL where there is none: the last
-- character that can be raised is raised, what follows it is cut. Code point order is byte order in UTF-8.
CREATE FUNCTION lobgate.prefix_end(p_prefix text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    v_rest text := p_prefix;
    v_last integer;
BEGIN
    WHILE v_rest <> '' LOOP
        v_last := ascii(right(v_rest, 1));
        v_rest := left(v_rest, -1);
        IF v_last = 55295 THEN          -- U+D7FF: the surrogates after it are no characters
            RETURN v_rest || chr(57344);
        ELSIF v_last < 1114111 THEN     -- U+10FFFF is the last character
            RETURN v_rest || chr(v_last + 1);
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- A page of a listing with a delimiter: live keys, and the common prefixes up to and including the first delimiter
-- after p_prefix, in byte order, at most p_limit. A loose index scan: past each common prefix the index is entered
-- anew at its end, so the cost is that of the entries returned, not of the keys below.
--   p_from       first key to consider, inclusive;  NULL: from the prefix on
-- Rows of common prefixes have object_id NULL.
CREATE FUNCTION lobgate.list_entries(
    p_bucket_id integer, p_prefix text, p_delimiter text, p_from text, p_limit integer
) RETURNS TABLE (name text, object_id bigint, size bigint, etag text, last_modified timestamptz,
                 storage_class text, checksum_algorithm text, checksum_type text)
LANGUAGE plpgsql STABLE ROWS 1000
AS $$
DECLARE
    v_from   text COLLATE "C" := greatest(coalesce(p_from, '') COLLATE "C", p_prefix COLLATE "C");
    -- no key is as long as the greatest text that stands in for an open end
    v_end    text COLLATE "C" := coalesce(lobgate.prefix_end(p_prefix), repeat(chr(1114111), 257));
    v_count  integer := 0;
    v_at     integer;
    v_jumped boolean;
    v_row    record;
BEGIN
    LOOP
        v_jumped := false;
        FOR v_row IN
            SELECT o.id, o.key, o.size, o.etag, o.last_modified, o.attributes ->> 'storage_class' AS storage_class,
                   o.checksum_algorithm, o.checksum_type
            FROM lobgate.object o
            WHERE o.bucket_id = p_bucket_id AND o.is_latest AND NOT o.is_delete_marker
              AND o.key >= v_from AND o.key < v_end
            ORDER BY o.key LIMIT p_limit - v_count
        LOOP
            v_count := v_count + 1;
            v_at := strpos(substr(v_row.key, length(p_prefix) + 1), p_delimiter);
            IF v_at > 0 THEN
                name := left(v_row.key, length(p_prefix) + v_at + length(p_delimiter) - 1);
                object_id := NULL; size := NULL; etag := NULL; last_modified := NULL;
                storage_class := NULL; checksum_algorithm := NULL; checksum_type := NULL;
                RETURN NEXT;
                v_from := lobgate.prefix_end(name);
                v_jumped := v_from IS NOT NULL;
                EXIT;
            END IF;
            name := v_row.key; object_id := v_row.id; size := v_row.size; etag := v_row.etag;
            last_modified := v_row.last_modified; storage_class := v_row.storage_class;
            checksum_algorithm := v_row.checksum_algorithm; checksum_type := v_row.checksum_type;
            RETURN NEXT;
        END LOOP;
        EXIT WHEN NOT v_jumped OR v_count >= p_limit;
    END LOOP;
END
$$;
