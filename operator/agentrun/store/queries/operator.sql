-- What the operator sends. What changes something is a function of the schema; what only reads is
-- written here.

-- name: version
SELECT coalesce(max(version), 0) FROM agentrun.schema_version

-- name: run
SELECT * FROM agentrun.run_facts WHERE run_uid = %(run_uid)s

-- The progress poll. Small rows through the partial index: its cost follows live runs only.
-- name: live
SELECT r.*, current_setting('transaction_read_only') = 'on' AS read_only,
       EXISTS (SELECT FROM agentrun.approval a WHERE a.run_uid = r.run_uid AND a.state = 'Pending'
                  AND a.object_uid IS NULL) AS unasked
  FROM agentrun.run_row r WHERE installation = %(installation)s AND state = 'Active'
 ORDER BY run_uid

-- What the sweep asks about: the same for all that is not over.
-- name: unfinished
SELECT * FROM agentrun.run_row
 WHERE installation = %(installation)s AND state IN ('Pending', 'Active', 'Suspended')
ORDER BY run_uid

-- One anchor row at "after" (whose hash the chain goes on from), the commits behind it, and in each
-- row the head of the run as of the same moment, by which a missing end is noticed.
-- name: commits
SELECT r.seq, r.chain, c.seq, c.origin, c.fence, c.attempt, c.at, c.kind, c.ref, c.codec, c.chain,
       c.body
  FROM agentrun.run r
  LEFT JOIN agentrun.commit c ON c.run_uid = r.run_uid AND c.seq >= %(after)s AND c.seq <= r.seq
 WHERE r.run_uid = %(run_uid)s
 ORDER BY c.seq

-- name: blobs
SELECT sha256, body FROM agentrun.blob WHERE run_uid = %(run_uid)s AND sha256 = ANY (%(hashes)b)

-- name: open_run
SELECT * FROM agentrun.open_run_v1(
  %(run_uid)s, %(object_uid)s, %(installation)s, %(namespace_uid)s, %(namespace)s, %(name)s,
  %(run_id)s, %(spec)b, %(spec_hash)s, %(generation)s, %(lease_ttl_ms)s, %(requested)s,
  %(requested_reason)s, %(budget_turns)s, %(budget_tokens)s, %(budget_cost)s, %(budget_active_s)s)

-- name: request
SELECT * FROM agentrun.request_v1(
  %(run_uid)s, %(object_uid)s, %(generation)s, %(requested)s, %(reason)s, %(by)s,
  %(budget_turns)s, %(budget_tokens)s, %(budget_cost)s, %(budget_active_s)s)

-- name: mint
SELECT * FROM agentrun.mint_v1(
  %(run_uid)s, %(object_uid)s, %(fence)s, %(seq)s, %(state)s, %(holder)s, %(because)s,
  %(secret_hash)b, %(trace_id)s, %(span_id)s, %(pod)s, %(codec)s, %(body)b, %(cause)s, %(fault)s,
  %(exit_code)s)

-- name: add_secret
SELECT * FROM agentrun.add_secret_v1(
  %(run_uid)s, %(object_uid)s, %(fence)s, %(state)s, %(secret_hash)b)

-- name: charge
SELECT * FROM agentrun.charge_v1(
  %(run_uid)s, %(object_uid)s, %(fence)s, %(seq)s, %(state)s, %(holder)s, %(cause)s, %(fault)s,
  %(exit_code)s, %(backoff_ms)s)

-- name: finish
SELECT * FROM agentrun.finish_v1(
  %(run_uid)s, %(object_uid)s, %(fence)s, %(seq)s, %(state)s, %(holder)s, %(outcome)s, %(reason)s,
  %(message)s, %(codec)s, %(body)b, %(cause)s, %(fault)s, %(exit_code)s)

-- name: suspend
SELECT * FROM agentrun.suspend_v1(
  %(run_uid)s, %(object_uid)s, %(fence)s, %(state)s, %(holder)s, %(reason)s, %(message)s,
  %(codec)s, %(body)b, %(cause)s, %(fault)s, %(exit_code)s)

-- name: revoke
SELECT * FROM agentrun.revoke_v1(%(run_uid)s, %(object_uid)s, %(reason)s)

-- name: bind_approval
SELECT agentrun.bind_approval_v1(%(run_uid)s, %(id)s, %(object_uid)s, %(seen_object_uid)s)

-- name: decide
SELECT * FROM agentrun.decide_v1(
  %(run_uid)s, %(object_uid)s, %(fence)s, %(id)s, %(approval_object_uid)s, %(decision)s,
  %(decided_by)s, %(content_hash)s, %(codec)s, %(body)b, %(secret_hash)b, %(trace_id)s,
  %(span_id)s, %(pod)s, %(new_codec)s, %(new_body)b)

-- name: purge_secrets
SELECT agentrun.purge_secrets_v1(%(run_uid)s)
