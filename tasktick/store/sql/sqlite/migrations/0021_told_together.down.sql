-- Nothing is lost: what was told of several together is told of each.
WITH RECURSIVE places (nth) AS (
    SELECT 0 UNION ALL SELECT nth + 1 FROM places WHERE nth < (SELECT max(length(items)) / 32 FROM events)
)
UPDATE events SET items = (
    SELECT json_group_object(tenant, json(told)) FROM (
        SELECT DISTINCT tenant, json_group_array(json(item)) OVER (
            PARTITION BY tenant ORDER BY place, nth ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) AS told
        FROM (
            SELECT
                of_tenant.key AS tenant, written.key AS place, nth,
                CASE WHEN json_array_length(written.value) > 5 THEN written.value ELSE json_array(
                    substr(written.value->>0, 32 * nth + 1, 32), written.value->>1, written.value->>2,
                    written.value->>3, written.value->>4
                ) END AS item
            FROM json_each(events.items) AS of_tenant
            CROSS JOIN json_each(of_tenant.value) AS written
            JOIN places
                ON nth = 0 OR (json_array_length(written.value) = 5 AND 32 * nth < length(written.value->>0))
        )
    )
);
