-- Nothing is lost: what was told of several together is told of each.
UPDATE events SET items = (
    SELECT json_group_object(tenant, json(told)) FROM (
        SELECT DISTINCT tenant, json_group_array(json(item)) OVER (
            PARTITION BY tenant ORDER BY place, nth ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) AS told
        FROM (
            WITH RECURSIVE apart (tenant, place, nth, written, chars) AS (
                SELECT
                    of_tenant.key, one.key, 0, one.value,
                    CASE WHEN json_array_length(one.value) = 5 THEN length(one.value->>0) ELSE 0 END
                FROM json_each(events.items) AS of_tenant CROSS JOIN json_each(of_tenant.value) AS one
                UNION ALL
                SELECT tenant, place, nth + 1, written, chars FROM apart WHERE 32 * (nth + 1) < chars
            )
            SELECT
                tenant, place, nth,
                CASE WHEN chars <= 32 THEN written ELSE json_array(
                    substr(written->>0, 32 * nth + 1, 32), written->>1, written->>2, written->>3, written->>4
                ) END AS item
            FROM apart
        )
    )
)
WHERE EXISTS (
    SELECT 1 FROM json_each(events.items) AS of_tenant CROSS JOIN json_each(of_tenant.value) AS one
    WHERE json_array_length(one.value) = 5 AND length(one.value->>0) > 32
);
