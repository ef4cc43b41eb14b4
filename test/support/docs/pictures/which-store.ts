import { drawing, line, rectangle, text, WIDTH } from '../svg.js';

const STYLE = `
  .strong { font-weight: 600; }
  .box { fill: none; stroke: #59636e; }
  .choice { fill: none; stroke: #0969da; stroke-width: 2; }
  .way { stroke: #59636e; stroke-width: 1.5; }
  .head { stroke: #59636e; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .box { stroke: #9198a1; }
    .choice { stroke: #4493f8; }
    .way, .head { stroke: #9198a1; }
  }`;

const QUESTION = 330;
const CHOICE = 470;
const HEIGHT = 46;
const STEP = 74;
const TOP = 34;

interface Step {
  readonly question: readonly [string, string];
  readonly choice: readonly [string, string];
}

const STEPS: readonly Step[] = [
  {
    question: ['Tests, or development in one process?', 'Its records end with the process.'],
    choice: ['memoryStore()', 'in this process'],
  },
  {
    question: [
      'Is the whole effect a write to PostgreSQL?',
      'Then one commit can hold effect and record.',
    ],
    choice: ['postgresStore(…), transaction: true', 'effect and record in one commit'],
  },
  {
    question: ['Outcomes as durable as your database?', 'Or do you operate no Redis?'],
    choice: ['postgresStore(…)', 'a row for each record'],
  },
  {
    question: ['Redis without a replica?', 'While it is down, requests get 503.'],
    choice: ['redisStore({ url })', 'with appendonly and noeviction'],
  },
  {
    question: ['Is a second run worse than more 503?', 'A failover can lose what no replica has.'],
    choice: ['redisStore({ …, waitReplicas })', 'replicas confirm each outcome'],
  },
];

const OTHERWISE = [
  'redisStore({ connection or client })',
  'Sentinel or Cluster as they are',
] as const;

/** Which store to use, as questions: each yes leads to a store, each no to the next question. */
export function whichStore(): string {
  const elements = STEPS.flatMap(({ question, choice }, index) => {
    const y = TOP + index * STEP;
    return [
      ...box(0, y, QUESTION, question, 'box'),
      ...arrowRight(QUESTION, CHOICE, y + HEIGHT / 2),
      text((QUESTION + CHOICE) / 2, y + HEIGHT / 2 - 6, 'yes', 'faint', 'middle'),
      ...box(CHOICE, y, WIDTH - CHOICE - 3, choice, 'choice'),
      ...arrowDown(QUESTION / 2, y + HEIGHT, y + STEP),
      text(QUESTION / 2 + 8, y + HEIGHT + 18, 'no', 'faint'),
    ];
  });
  const last = TOP + STEPS.length * STEP;
  return drawing(
    'Which store',
    last + HEIGHT + 6,
    [...elements, ...box(0, last, QUESTION, OTHERWISE, 'choice')],
    STYLE,
  );
}

function box(
  x: number,
  y: number,
  width: number,
  [first, second]: readonly [string, string],
  style: string,
): string[] {
  return [
    rectangle(x + 1, y, width, HEIGHT, style),
    text(x + 12, y + 19, first, 'strong'),
    text(x + 12, y + 36, second, 'faint'),
  ];
}

function arrowRight(from: number, to: number, y: number): string[] {
  return [
    line(from + 1, y, to, y, 'way'),
    line(to - 6, y - 4, to, y, 'head'),
    line(to - 6, y + 4, to, y, 'head'),
  ];
}

function arrowDown(x: number, from: number, to: number): string[] {
  return [
    line(x, from, x, to, 'way'),
    line(x - 4, to - 6, x, to, 'head'),
    line(x + 4, to - 6, x, to, 'head'),
  ];
}
