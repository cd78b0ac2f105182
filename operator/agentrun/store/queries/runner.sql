-- What a runner sends. %b: bodies go in binary, which is an order of magnitude cheaper for large ones.

-- name: claim
SELECT * FROM agentrun.claim_v1(%(run_uid)s, %(fence)s, %(secret)b, %(holder)s, %(nonce)s, %(node)s)

-- name: renew
SELECT * FROM agentrun.renew_v1(%(run_uid)s, %(fence)s, %(secret)b)

-- Positional: the hot path.
-- name: append
SELECT * FROM agentrun.append_v1(
  %s, %s, %b, %s, %s, %s, %s, %s, %b, %s,
  %s, %s, %s, %s, %s, %s, %s)

-- name: append_group
SELECT * FROM agentrun.append_group_v1(
  %s, %s, %b, %s, %s, %s::text[], %s::text[], %s::int2[], %b, %s,
  %s, %s, %s, %s, %s, %s, %s,
  %s, %s, %s, %s, %s,
  %s::text[], %s::int4[], %s::text[], %s::text[], %s::int4[], %b, %s::text[], %s::text[])

-- name: snapshot
SELECT agentrun.snapshot_v1(%(run_uid)s, %(fence)s, %(secret)b, %(seq)s, %(version)s, %(codec)s, %(body)b)

-- name: restore
SELECT * FROM agentrun.restore_v1(%(run_uid)s, %(fence)s, %(secret)b)

-- name: put_blob
SELECT agentrun.put_blob_v1(%(run_uid)s, %(fence)s, %(secret)b, %(body)b)

-- name: get_blobs
SELECT * FROM agentrun.get_blobs_v1(%(run_uid)s, %(fence)s, %(secret)b, %(hashes)b)

-- name: release
SELECT agentrun.release_v1(%(run_uid)s, %(fence)s, %(secret)b)
