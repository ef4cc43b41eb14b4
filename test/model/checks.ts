/** A run of the model: with which definitions, and what has to come out. */
export interface Check {
  readonly name: string;
  /** See the head of record.pml. */
  readonly definitions: readonly string[];
  /** What holds in every state; or, of a model with a planted mistake, that it does not. */
  readonly expected: 'no error' | 'a counterexample';
  /** Whether it is about what happens in the end, under weak fairness, and not about single states. */
  readonly isLiveness?: boolean;
}

const TWO_BY_TWO = ['N=2', 'ATT=2'];
const TWO_BY_ONE = ['N=2', 'ATT=1'];
const THREE_BY_ONE = ['N=3', 'ATT=1'];
const TWO_CONTENTS = 'CONTENTS=2';
const STORM = ['OVERRUN', 'CRASHLATE'];
const ONE_PROCESS = ['OVERRUN', 'DEADLINE', 'TOGETHER=2'];
const HANGING = ['N=1', 'ATT=1', 'LIVE', 'DEADLINE', 'TOGETHER=2', 'HB=2'];

const holds = (name: string, ...definitions: string[]): Check => ({
  name,
  definitions,
  expected: 'no error',
});
const fails = (name: string, ...definitions: string[]): Check => ({
  name,
  definitions,
  expected: 'a counterexample',
});

export const CHECKS: readonly Check[] = [
  holds('one effect, 2 × 2, 2 contents', ...TWO_BY_TWO, TWO_CONTENTS, 'ONCE'),
  holds('one effect, 3 × 1, 2 contents', ...THREE_BY_ONE, TWO_CONTENTS, 'ONCE', 'HB=0'),
  holds('storm, 2 × 2, 2 contents', ...TWO_BY_TWO, TWO_CONTENTS, ...STORM, 'RL=0'),
  holds('storm, lost replies, 2 contents', ...TWO_BY_TWO, TWO_CONTENTS, ...STORM, 'GH=0'),
  holds('storm, one write authority', ...TWO_BY_TWO, ...STORM, 'AUTHORITY'),
  holds('storm, outcomes never change', ...TWO_BY_TWO, ...STORM, 'FINAL'),
  holds('every further effect is reported', ...TWO_BY_TWO, 'OVERRUN', 'REPORTED'),
  holds(
    'losses and fail-open, 2 contents',
    ...[...TWO_BY_ONE, TWO_CONTENTS, ...STORM, 'LS=1', 'FL=2', 'FO=1', 'GIVEUP'],
  ),
  holds(
    'losses, 3 × 1, 2 contents',
    ...[...THREE_BY_ONE, TWO_CONTENTS, 'OVERRUN', 'LS=1', 'FL=2', 'GH=0', 'RL=0', 'HB=0'],
  ),
  holds('one process, 2 × 2', ...TWO_BY_TWO, ...ONE_PROCESS, 'HB=0'),
  holds('one process of two, 3 × 1', ...THREE_BY_ONE, ...ONE_PROCESS, 'HB=0', 'RL=0'),
  { ...holds('no key is stuck', ...HANGING), isLiveness: true },

  fails('another content', ...TWO_BY_TWO, TWO_CONTENTS, 'OVERRUN', 'GH=0', 'IGNORE_CONTENT'),
  fails('failures restored', ...TWO_BY_ONE, 'OVERRUN', 'LS=1', 'RESTORE_FAILURES'),
  fails('late failures stored', ...THREE_BY_ONE, 'OVERRUN', 'FL=2', 'GH=0', 'LATE_FAILURES'),
  fails('own attempts forgotten', ...TWO_BY_ONE, ...ONE_PROCESS, 'FORGET_OWN'),
  fails('begins of any age', ...TWO_BY_ONE, ...ONE_PROCESS, 'NEVER_LATE'),
  { ...fails('denied for ever', ...HANGING, 'DENY_FOR_EVER'), isLiveness: true },
  fails('fences not compared', ...TWO_BY_ONE, 'OVERRUN', 'TOKEN_ALONE'),
  fails('no tombstones', ...TWO_BY_ONE, 'OVERRUN', 'DELETE_RELEASED'),
  fails('fences that fall', ...TWO_BY_ONE, 'OVERRUN', 'LOWER_FENCE'),
];
