import { mistakesIn, type Mistake } from './mistake.js';

const RECORD = mistakesIn(
  'lib/core/store/record-transitions.ts',
  [
    'a begin that is resent acquires nothing',
    '  if (mine) {\n    const renewed',
    '  if (mine && record.leaseUntil <= now) {\n    const renewed',
  ],
  [
    'a copy of a begin acquires what its attempt has released',
    "if (mine) return { reply: { kind: 'stale_begin' }, record: stored };",
    '',
  ],
  [
    'begin does not compare the content',
    'if (record.fingerprint !== command.fingerprint) {',
    "if (record.state === 'in_progress' && record.fingerprint !== command.fingerprint) {",
  ],
  [
    'begin does not compare the content of a record in progress',
    'if (record.fingerprint !== command.fingerprint) {',
    "if (record.state !== 'in_progress' && record.fingerprint !== command.fingerprint) {",
  ],
  [
    'a begin acquires after notAfter',
    'if (command.notAfter !== 0 && now > command.notAfter) {',
    'if (command.notAfter !== 0 && now > command.notAfter + 60_000) {',
  ],
  [
    'a lease is over a millisecond later',
    'if (leaseLeftMs > 0) {',
    'if (leaseLeftMs >= 0) {',
    'No other attempt holds the record in that millisecond: the next begin takes it over.',
  ],
  [
    'a lease that lies further ahead than its length is not shortened',
    'return record.leaseUntil > furthest ?',
    'return record.leaseUntil > furthest + record.leaseMs * 1e6 ?',
  ],
  [
    'an abandoned record is taken over under deny',
    "if (command.onExpiredLease === 'deny') {",
    "if (command.onExpiredLease === 'deny' && record.takeovers > 0) {",
  ],
  ['a takeover is not counted', 'takeovers: takeovers + 1,', 'takeovers,'],
  [
    'a released record forgets its takeovers',
    "return acquire(record, command, nowUs, { kind: 'acquired', attempt: attempt + 1, takeovers });",
    "void takeovers;\n    return acquire(record, command, nowUs, { kind: 'acquired', attempt: attempt + 1, takeovers: 0 });",
  ],
  [
    'the fence comes from the clock alone',
    'const fence = Math.max((previous?.fence ?? 0) + 1, nowUs);',
    'const fence = nowUs;',
  ],
  [
    'a record is gone with its lease',
    'expiresAt: now + command.recordRetentionMs,\n    origin,',
    'expiresAt: now + leaseMs,\n    origin,',
  ],
  ['the owner is not compared', 'record.token === lease.token && (lease.fence', '(lease.fence'],
  [
    'the fence is not compared',
    '(lease.fence === UNKNOWN_FENCE || record.fence === lease.fence)',
    '(lease.fence === UNKNOWN_FENCE || record.fence > 0)',
    'A token belongs to one attempt: a late copy of its begin that acquires the record again acquires it for that attempt.',
  ],
  [
    'an attempt whose fence is unknown holds nothing',
    'lease.fence === UNKNOWN_FENCE || record.fence',
    'record.fence',
  ],
  [
    'a lost lease still completes',
    "if (!holds(record, lease)) {\n        return { reply: { kind: 'lost', state: record.state, fence }, record: stored };\n      }\n      const { token, leaseUntil",
    'const { token, leaseUntil',
  ],
  [
    'an outcome is replaced by a later one',
    "      if (mine) return { reply: { kind: 'already' }, record: stored };",
    "      if (mine) return { reply: { kind: 'already' }, record: stored };\n      if (state === 'completed') {\n        return { reply: { kind: 'ok_late' }, record: { ...record, state, token: lease.token, fingerprint, outcome } };\n      }",
  ],
  [
    'an outcome of other content answers a late attempt',
    'if (record.fingerprint !== fingerprint) {',
    "if (record.state === 'failed' && record.fingerprint !== fingerprint) {",
  ],
  ['a late failure is stored', "if (mine || state === 'failed') {", 'if (mine) {'],
  [
    'a late success of a released record is refused',
    "if (mine || state === 'failed') {",
    'if (mine || !mine) {',
  ],
  [
    'a failure whose record has vanished is restored',
    "if (command.whenGone === 'report' || state === 'failed') {",
    "if (command.whenGone === 'report') {",
  ],
  [
    'a release leaves no tombstone',
    'const expiresAt = now + command.tombstoneMs;',
    'const expiresAt = now;',
  ],
  [
    'any attempt can release',
    "if (!holds(record, lease)) return unchanged('lost');\n    const { token",
    'const { token',
  ],
  [
    'a release removes an outcome',
    "  if (record.token !== lease.token) return unchanged('lost');\n  return",
    "  if (record.token !== lease.token) return unchanged('lost');\n  if (record.state !== 'released') {\n    return { reply: { kind: 'ok' }, record: { ...record, expiresAt: now } };\n  }\n  return",
    'An attempt completes or releases. Only a transaction whose COMMIT got no reply does both, and there are none here.',
  ],
  [
    'any attempt extends the lease',
    "if (!holds(record, lease)) return unchanged('lost');\n  if (now",
    'if (now',
  ],
  [
    'a lease is extended beyond the hard deadline',
    "if (now >= record.deadline) return unchanged('max_execution');",
    '',
    'The keeper of the attempt stops at the same deadline, so that only a delayed heartbeat can arrive after it, and that adds one lease.',
  ],
  [
    'an outcome is replayed in the millisecond of its expiry',
    'stored.expiresAt > now ?',
    'stored.expiresAt >= now ?',
  ],
  [
    'records are listed as abandoned before their time',
    'const isAbandoned = now - clamped.leaseUntil >= overMs;',
    'const isAbandoned = now >= clamped.leaseUntil;',
  ],
);

const MEMORY = [
  ...mistakesIn(
    'lib/stores/memory/memory-idempotency-store.ts',
    [
      'the memory store forgets a record a second early',
      '      this.sweep(now);\n      this.deliver',
      '      this.sweep(now + 1_000);\n      this.deliver',
    ],
    [
      "the memory store keeps the caller's bytes",
      'const own = { ...command, outcome: new StoredOutcome(command.outcome) };',
      'const own = command;',
    ],
    [
      'the memory store does not say that a record was completed',
      "      const isChanged = this.write(lease.recordKey, entry, record);\n      if (command.notify === true && isChanged) this.notify(lease.recordKey);\n      return 'outcome'",
      "      this.write(lease.recordKey, entry, record);\n      return 'outcome'",
    ],
    [
      'the memory store does not say that a record was released',
      '      const isChanged = this.write(lease.recordKey, entry, record);\n      if (command.notify === true && isChanged) this.notify(lease.recordKey);\n      return reply;',
      '      this.write(lease.recordKey, entry, record);\n      return reply;',
      'A waiting duplicate polls at least every half second, too.',
    ],
    [
      'the memory store keeps those that no longer watch',
      'this.watchers.remove(recordKey, onEnd);',
      '',
    ],
    [
      'the memory store does not store an extended lease',
      '      const { reply, record } = transitions.extend(entry?.record, lease, command, nowUs);\n      this.write(lease.recordKey, entry, record);',
      '      const { reply } = transitions.extend(entry?.record, lease, command, nowUs);',
    ],
  ),
  ...mistakesIn('lib/stores/memory/expiry-queue.ts', [
    'the memory store deletes the record that expires first, whether or not it has expired',
    'if (first === undefined || first.expiresAt > now) return undefined;',
    'if (first === undefined || (first.expiresAt > now && this.heap.length < 5)) return undefined;',
  ]),
];

export const STORE_MISTAKES: readonly Mistake[] = [...RECORD, ...MEMORY];
