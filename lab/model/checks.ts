/** A run of the model: with which definitions, and what has to come out. */
export interface Check {
  readonly name: string;
  readonly file: 'protocol.pml' | 'transaction.pml';
  /** See the heads of the files. */
  readonly definitions: readonly string[];
  /** What holds in every state; or, of a model with a planted mistake, that it does not. */
  readonly expected: 'no error' | 'a counterexample';
  /** Of a run without an error, for docs/explanation/protocol.md: what holds, and where. */
  readonly property?: { readonly holds: string; readonly environment: string };
  /** Whether it is about what happens in the end, under weak fairness, and not about single states. */
  readonly isLiveness?: boolean;
  /** Whether it takes more than `npm run test:all` can spend on it. */
  readonly isLong?: boolean;
  /** Of a planted mistake: whether the record takes a step that the code does not. */
  readonly isOfRecord?: boolean;
}

const TWO_BY_TWO = ['N=2', 'ATT=2'];
const TWO_BY_ONE = ['N=2', 'ATT=1'];
const THREE_BY_ONE = ['N=3', 'ATT=1'];
const TWO_CONTENTS = 'CONTENTS=2';
const STORM = ['OVERRUN', 'CRASHLATE'];
const ONE_PROCESS = ['OVERRUN', 'DEADLINE', 'TOGETHER=2'];
/** Without heartbeats and failures, of which the blob store knows nothing. */
const BLOBS = ['BLOBS', 'BF=1', 'BX=1', 'FL=0', 'HB=0'];
const HANGING = ['N=1', 'ATT=1', 'LIVE', 'DEADLINE', 'TOGETHER=2', 'HB=2'];

/** For random histories. Where leases may expire at any instant, nearly all do. */
export const HISTORIES = [
  [...TWO_BY_TWO, TWO_CONTENTS, 'GIVEUP', 'FL=2'],
  [...TWO_BY_TWO, 'GIVEUP', 'FL=2', 'OP=3', 'FORCE'],
  [...THREE_BY_ONE, 'OVERRUN', 'HB=2', 'FL=1', 'CR=0', 'GH=0', 'RL=0'],
  ['N=2', 'ATT=3', TWO_CONTENTS, 'OVERRUN', 'HB=3', 'FL=2', 'CR=0', 'GH=4', 'RL=4'],
  [
    ...[...TWO_BY_TWO, TWO_CONTENTS, ...STORM, 'DEADLINE', 'GIVEUP'],
    ...['HB=2', 'FL=2', 'CR=2', 'GH=3', 'RL=2', 'LS=1', 'FO=1'],
  ],
];

/** Planted in the steps of the record: see the head of record.pml. */
export const RECORD_MISTAKES = [
  ...['NO_OWNER', 'TOKEN_ALONE', 'OVERWRITE', 'IGNORE_CONTENT', 'RESTORE_FAILURES'],
  ...['LATE_FAILURES', 'LOWER_FENCE', 'DELETE_RELEASED'],
  ...['AMEND_UNSEEN', 'AMEND_RUNNING', 'AMEND_NO_OWNER'],
];

const holds = (
  name: string,
  property: readonly [holds: string, environment: string],
  ...definitions: string[]
): Check => ({
  name,
  file: 'protocol.pml',
  definitions,
  expected: 'no error',
  property: { holds: property[0], environment: property[1] },
});
const fails = (name: string, ...definitions: string[]): Check => ({
  name,
  file: 'protocol.pml',
  definitions,
  expected: 'a counterexample',
  isOfRecord: definitions.some((definition) => RECORD_MISTAKES.includes(definition)),
});
const inTransaction = (check: Check): Check => ({ ...check, file: 'transaction.pml' });

const ONE_EFFECT = 'at most one effect';
const EVERY_PROMISE = 'the promises of every live record';
const UNTIL_LOST = 'the promises, until the store loses the record';
const NOT_ITS_OWN = 'no process takes over an attempt that it is itself running';
const POINTS_WELL =
  'a pointer is to a blob that was stored before, and to no other attempt’s; a blob that is gone is no second run';
const COMMITTED_ONCE =
  'the committed effect happens at most once, and all clients get the same success';

const CALM = 'calm: no lease is outlived, no crash between effect and complete';
const IN_STORM =
  'storm: a lease may be over at any instant, a worker may crash between effect and complete';
const BLOBS_FAIL = 'a put or a read fails, a blob expires, completions given up';
const LOSSES = 'storm, a loss, two failures, a run without a record, begins given up';
const COMMITS =
  'transactional: commits without a reply, connections lost, leases over at any instant';

export const CHECKS: readonly Check[] = [
  holds('calm, 2 × 2, 2 contents', [ONE_EFFECT, CALM], ...TWO_BY_TWO, TWO_CONTENTS, 'ONCE'),
  holds('calm, 3 × 1, 2 contents', [ONE_EFFECT, CALM], ...THREE_BY_ONE, TWO_CONTENTS, 'ONCE'),
  holds(
    'storm, 2 × 2, 2 contents',
    [EVERY_PROMISE, IN_STORM],
    ...[...TWO_BY_TWO, TWO_CONTENTS, ...STORM],
  ),
  {
    ...holds(
      'storm, 3 × 1, 2 contents',
      [EVERY_PROMISE, IN_STORM],
      ...[...THREE_BY_ONE, TWO_CONTENTS, ...STORM],
    ),
    isLong: true,
  },
  holds(
    'storm, one write authority',
    ['one write authority', 'storm'],
    ...[...TWO_BY_TWO, ...STORM, 'AUTHORITY'],
  ),
  holds(
    'storm, deny: one effect',
    [ONE_EFFECT, 'storm, and every begin denies a takeover'],
    ...[...TWO_BY_TWO, ...STORM, 'DENY', 'ONCE'],
  ),
  holds(
    'every further effect is reported',
    ['every further effect is reported', 'leases over at any instant'],
    ...[...TWO_BY_TWO, 'OVERRUN', 'REPORTED'],
  ),
  holds(
    'losses and fail-open, 2 × 1, 2 contents',
    [UNTIL_LOST, LOSSES],
    ...[...TWO_BY_ONE, TWO_CONTENTS, ...STORM, 'LS=1', 'FL=2', 'FO=1', 'GIVEUP'],
  ),
  {
    ...holds(
      'losses and fail-open, 2 × 2, 2 contents',
      [UNTIL_LOST, 'storm, a loss, a run without a record, begins given up; no heartbeats'],
      ...[...TWO_BY_TWO, TWO_CONTENTS, ...STORM, 'LS=1', 'FL=0', 'FO=1', 'GIVEUP', 'HB=0'],
    ),
    isLong: true,
  },
  holds(
    'losses, 3 × 1, 2 contents',
    [
      UNTIL_LOST,
      'leases over at any instant, a loss, two failures; no lost replies, late copies, heartbeats',
    ],
    ...[...THREE_BY_ONE, TWO_CONTENTS, 'OVERRUN', 'LS=1', 'FL=2', 'GH=0', 'RL=0', 'HB=0'],
  ),
  holds(
    'one process, 2 × 2',
    [
      NOT_ITS_OWN,
      'leases and deadlines over at any instant, workers of one process; no heartbeats',
    ],
    ...[...TWO_BY_TWO, ...ONE_PROCESS, 'HB=0'],
  ),
  holds(
    'one process of two, 3 × 1',
    [
      NOT_ITS_OWN,
      'leases and deadlines over at any instant, two of three workers of one process; no heartbeats, lost replies',
    ],
    ...[...THREE_BY_ONE, ...ONE_PROCESS, 'HB=0', 'RL=0'],
  ),
  {
    ...holds(
      'no key is stuck',
      [
        'no key is stuck',
        'the operation hangs, with two heartbeats; its client retries in the same process',
      ],
      ...HANGING,
    ),
    isLiveness: true,
  },
  holds(
    'blobs, calm, 2 × 2',
    [ONE_EFFECT, `calm, ${BLOBS_FAIL}`],
    ...[...TWO_BY_TWO, ...BLOBS, 'ONCE'],
  ),
  holds(
    'blobs, storm, 2 × 1',
    [POINTS_WELL, `storm, ${BLOBS_FAIL}`],
    ...[...TWO_BY_ONE, ...STORM, ...BLOBS],
  ),
  holds(
    'blobs, storm, 2 × 2',
    [POINTS_WELL, `storm, ${BLOBS_FAIL}; no late copies`],
    ...[...TWO_BY_TWO, ...STORM, ...BLOBS, 'GH=0'],
  ),
  holds(
    'blobs, storm and losses, 2 × 1',
    [`${UNTIL_LOST}, with blobs`, `storm, a loss, ${BLOBS_FAIL}`],
    ...[...TWO_BY_ONE, ...STORM, ...BLOBS, 'LS=1'],
  ),
  inTransaction(holds('transactional, 2 × 2', [COMMITTED_ONCE, COMMITS], ...TWO_BY_TWO)),
  inTransaction(holds('transactional, 3 × 1', [COMMITTED_ONCE, COMMITS], ...THREE_BY_ONE)),
  inTransaction(holds('transactional, 2 × 3', [COMMITTED_ONCE, COMMITS], 'N=2', 'ATT=3')),

  holds(
    'calm, an operator, 2 × 2',
    [ONE_EFFECT, 'calm, and an operator who changes what no lease protects; no heartbeats'],
    ...[...TWO_BY_TWO, 'OP=1', 'HB=0', 'ONCE'],
  ),
  holds(
    'storm, an operator, 2 × 1, 2 contents',
    [EVERY_PROMISE, 'storm, and an operator who twice changes the record, also of live attempts'],
    ...[...TWO_BY_ONE, TWO_CONTENTS, ...STORM, 'OP=2', 'FORCE'],
  ),

  fails('one effect, leases outlived', ...TWO_BY_ONE, 'OVERRUN', 'ONCE'),
  {
    ...fails(
      'authority without owners',
      ...TWO_BY_ONE,
      'OVERRUN',
      'FL=0',
      'GH=0',
      'AUTHORITY',
      'NO_OWNER',
    ),
    // The claim is violated before a step of the record is.
    isOfRecord: false,
  },
  fails('owners not compared', ...TWO_BY_ONE, 'OVERRUN', 'NO_OWNER'),
  fails('fences not compared', ...TWO_BY_ONE, 'OVERRUN', 'TOKEN_ALONE'),
  fails('outcomes replaced', ...TWO_BY_ONE, 'OVERRUN', 'OVERWRITE'),
  fails('another content', ...TWO_BY_TWO, TWO_CONTENTS, 'OVERRUN', 'GH=0', 'IGNORE_CONTENT'),
  fails('failures restored', ...TWO_BY_ONE, 'OVERRUN', 'LS=1', 'RESTORE_FAILURES'),
  fails('late failures stored', ...THREE_BY_ONE, 'OVERRUN', 'FL=2', 'GH=0', 'LATE_FAILURES'),
  fails('fences that fall', ...TWO_BY_ONE, 'OVERRUN', 'LOWER_FENCE'),
  fails('no tombstones', ...TWO_BY_ONE, 'OVERRUN', 'DELETE_RELEASED'),
  fails('takeovers not reported', ...TWO_BY_ONE, ...STORM, 'REPORTED', 'SILENT'),
  fails('own attempts forgotten', ...TWO_BY_ONE, ...ONE_PROCESS, 'FORGET_OWN'),
  fails('begins of any age', ...TWO_BY_ONE, ...ONE_PROCESS, 'NEVER_LATE'),
  { ...fails('denied for ever', ...HANGING, 'DENY_FOR_EVER'), isLiveness: true },
  fails("an operator's look not compared", ...TWO_BY_ONE, 'OP=1', 'AMEND_UNSEEN'),
  fails('live attempts amended', ...TWO_BY_ONE, 'OP=1', 'ONCE', 'AMEND_RUNNING'),
  fails("amended records still the attempt's", ...TWO_BY_ONE, 'OP=1', 'FORCE', 'AMEND_NO_OWNER'),
  fails('responses before complete', ...TWO_BY_ONE, 'OVERRUN', 'RESPOND_FIRST'),
  fails('business data not fenced', ...TWO_BY_ONE, 'OVERRUN', 'UNFENCED'),
  fails('completed before put', ...TWO_BY_ONE, ...BLOBS, 'COMPLETE_FIRST'),
  fails('one blob for all attempts', ...TWO_BY_ONE, 'OVERRUN', ...BLOBS, 'ONE_NAME'),
  fails('superseded blobs sent', ...TWO_BY_ONE, 'OVERRUN', ...BLOBS, 'SERVE_OWN'),
  fails('blobs of unknown ends deleted', ...TWO_BY_ONE, ...BLOBS, 'DROP_UNKNOWN'),
  fails('missing blobs run again', ...TWO_BY_ONE, ...BLOBS, 'ONCE', 'RUN_AGAIN'),
  inTransaction(fails('neither lock nor outcome', ...TWO_BY_ONE, 'OUTSIDE', 'UNLOCKED')),
  inTransaction(fails('takeovers of locked records', ...TWO_BY_ONE, 'OUTSIDE', 'IGNORE_LOCK')),
  inTransaction(fails('commits assumed', ...TWO_BY_ONE, 'ASSUME_COMMITTED')),
];
