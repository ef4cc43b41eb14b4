import { drawing, line, rectangle, text } from '../svg.js';

/** Looks that charts do not have. */
const STYLE = `
  .strong { font-weight: 600; }
  .on { fill: #ffffff; font-weight: 600; }
  .running { fill: #9a6700; }
  .kept { fill: #1a7f37; }
  .over { fill: #59636e; }
  .moment { stroke: #59636e; stroke-dasharray: 3 3; }
  .cross { stroke: #cf222e; stroke-width: 2.5; }
  @media (prefers-color-scheme: dark) {
    .on { fill: #0d1117; }
    .running { fill: #d29922; }
    .kept { fill: #3fb950; }
    .over { fill: #9198a1; }
    .moment { stroke: #9198a1; }
    .cross { stroke: #f85149; }
  }`;

const LEFT = 172;
const RIGHT = 756;
const ROW = 44;
const TOP = 34;
const BAR = 22;

/** A request of the picture: when it arrives, how long it takes, and what the client gets. */
interface Request {
  readonly name: string;
  readonly detail: string;
  readonly from: number;
  readonly to: number;
  /** Whether the operation runs, and what stands on it. */
  readonly runs?: string;
  readonly dies?: boolean;
  readonly response: string;
  readonly remark: string;
}

interface Phase {
  readonly from: number;
  readonly to: number;
  readonly name: string;
  readonly style: 'running' | 'kept' | 'over';
}

const FIRST: readonly Request[] = [
  {
    name: 'First request',
    detail: 'key A, amount 1200',
    from: 180,
    to: 400,
    runs: 'the operation runs',
    response: '201',
    remark: 'sent once its outcome is stored',
  },
  {
    name: 'Conflict',
    detail: 'key A, amount 1200',
    from: 250,
    to: 262,
    response: '409',
    remark: 'Retry-After: 1',
  },
  {
    name: 'Retry',
    detail: 'key A, amount 1200',
    from: 414,
    to: 426,
    response: '201',
    remark: 'the same bytes, Idempotent-Replayed: true',
  },
  {
    name: 'Mismatch',
    detail: 'key A, amount 1300',
    from: 560,
    to: 572,
    response: '422',
    remark: 'the first outcome stays',
  },
];

const CRASH: readonly Request[] = [
  {
    name: 'Crash',
    detail: 'key B, amount 700',
    from: 180,
    to: 250,
    runs: 'runs',
    dies: true,
    response: '',
    remark: 'the process dies',
  },
  {
    name: 'Retry, too early',
    detail: 'key B, amount 700',
    from: 270,
    to: 282,
    response: '409',
    remark: 'Retry-After: 1',
  },
  {
    name: 'Retry, takeover',
    detail: 'key B, amount 700',
    from: 490,
    to: 660,
    runs: 'runs, isTakeover',
    response: '201',
    remark: '',
  },
];

/** The requests with one key over time, with a record that ends well, and one whose owner dies. */
export function oneKey(): string {
  const first = group(TOP, FIRST, [
    { from: 180, to: 400, name: 'in progress', style: 'running' },
    { from: 400, to: RIGHT, name: 'completed: status, headers, bytes', style: 'kept' },
  ]);
  const crashTop = TOP + FIRST.length * ROW + BAR + 30;
  const crash = group(crashTop, CRASH, [
    { from: 180, to: 410, name: 'in progress, lease of 10 s', style: 'running' },
    { from: 410, to: 490, name: 'lease over', style: 'over' },
    { from: 490, to: 660, name: 'in progress', style: 'running' },
    { from: 660, to: RIGHT, name: 'completed', style: 'kept' },
  ]);
  const height = crashTop + CRASH.length * ROW + BAR + 8;
  return drawing('Requests with one key over time', height, [...first, ...crash], STYLE);
}

/** Its requests, each in a row, and below them the record that they share. */
function group(top: number, requests: readonly Request[], phases: readonly Phase[]): string[] {
  const recordTop = top + requests.length * ROW;
  const moments = phases
    .slice(1)
    .map(({ from }) => line(from, top, from, recordTop + BAR, 'moment'));
  return [
    line(0, top - 6, RIGHT, top - 6, 'line'),
    ...moments,
    ...requests.flatMap((request, index) => row(top + index * ROW, request)),
    text(0, recordTop + 15, 'Record', 'strong'),
    ...phases.flatMap(({ from, to, name, style }) => [
      rectangle(from, recordTop, to - from, BAR, style),
      text((from + to) / 2, recordTop + 15, name, 'on', 'middle'),
    ]),
  ];
}

function row(y: number, request: Request): string[] {
  const { name, detail, from, to, runs, dies = false, response, remark } = request;
  const middle = y + BAR / 2;
  const after = to + (dies ? 16 : 8);
  return [
    text(0, y + 11, name, 'strong'),
    text(0, y + 26, detail, 'faint'),
    line(LEFT, middle, from, middle, 'line'),
    rectangle(from, y, to - from, BAR, runs === undefined ? 'other' : 'own'),
    ...(runs === undefined ? [] : [text((from + to) / 2, y + 15, runs, 'on', 'middle')]),
    ...(dies ? cross(to, middle) : []),
    text(after, y + 15, response, 'strong'),
    text(after + (response === '' ? 0 : 30), y + 15, remark, 'faint'),
  ];
}

function cross(x: number, y: number): string[] {
  return [line(x - 7, y - 7, x + 7, y + 7, 'cross'), line(x - 7, y + 7, x + 7, y - 7, 'cross')];
}
