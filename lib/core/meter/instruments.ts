import type { StoreCommand } from '../record/idempotency-events.js';
import type { StoreErrorType } from '../errors/errors.js';
import {
  BLOB_RESULT,
  BLOB_WAIT_END,
  BREAKER,
  COMMAND,
  DIRECTION,
  ERROR_TYPE,
  INCIDENT,
  LOSS_REASON,
  OPERATION,
  OUTCOME,
  PLACE,
  RECONCILED,
  RESULT,
  SYSTEM,
  TRANSPORT,
  UNREADABLE_REASON,
  WAIT_END,
  type Attribute,
} from './attributes.js';
import { CellsBy, Counter, Histogram, type Cell } from './cells.js';
import type { HistogramReading, MeterReading, OperationReading } from './meter-reading.js';

export type SampleValue = number | HistogramReading;

/** One series of a metric. */
export interface Sample {
  /** By the attributes' names. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly value: SampleValue;
}

/** What exporters, their documentation, the rules and the dashboard know about a metric. */
export interface Metric {
  /** By the conventions of OpenTelemetry. */
  readonly name: string;
  readonly kind: 'counter' | 'updowncounter' | 'histogram';
  /** In UCUM: `s`, `By`, `1`, or what is counted, in braces. */
  readonly unit: string;
  readonly description: string;
  readonly attributes: readonly Attribute[];
  /** The upper bounds of a histogram's buckets, in seconds. */
  readonly bounds?: readonly number[];
  readonly read: (reading: MeterReading) => readonly Sample[];
}

/** What counts the series of a metric. */
interface Counting<Counts extends Cell> extends Pick<Metric, 'kind' | 'attributes' | 'bounds'> {
  readonly start: () => Counts;
}

interface Instrument<Reading> extends Omit<Metric, 'read'>, Counting<Cell<Reading>> {}

const COUNTER: Counting<Counter> = {
  kind: 'counter',
  attributes: [],
  start: () => new Counter(),
};
/** What is counted anew for each reading. */
const LEVEL: Counting<Counter> = { ...COUNTER, kind: 'updowncounter' };
const DURATION = durations([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]);
const COMMAND_DURATION = durations([
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
]);

/** The instruments of each operation, by the members of its reading. */
export const INSTRUMENTS = {
  requests: {
    name: 'idempotency.requests',
    unit: '{request}',
    description: 'Requests of idempotent operations, by their result.',
    // A rule waits for the first one without the store.
    ...by(TRANSPORT, by(RESULT, COUNTER, ['unprotected'])),
  },
  incidents: {
    name: 'idempotency.incidents',
    unit: '{incident}',
    description: 'Events of attempts that show a problem.',
    ...by(INCIDENT, COUNTER, INCIDENT.values),
  },
  takeovers: {
    name: 'idempotency.takeovers',
    unit: '{takeover}',
    description: 'Attempts that began because the lease of an earlier one had expired.',
    ...COUNTER,
  },
  leaseLosses: {
    name: 'idempotency.lease.losses',
    unit: '{loss}',
    description: 'How often an attempt could no longer rely on its lease.',
    ...by(LOSS_REASON, COUNTER, LOSS_REASON.values),
  },
  unreadable: {
    name: 'idempotency.outcome.unreadable',
    unit: '{outcome}',
    description: 'Stored outcomes that could not be read.',
    ...by(UNREADABLE_REASON, COUNTER),
  },
  attempts: {
    name: 'idempotency.attempt.duration',
    unit: 's',
    description: 'How long attempts took, from their begin to the stored outcome.',
    ...by(OUTCOME, DURATION),
  },
  waits: {
    name: 'idempotency.wait.duration',
    unit: 's',
    description: 'How long duplicates waited for an attempt in progress.',
    ...by(WAIT_END, DURATION),
  },
  running: {
    name: 'idempotency.attempt.active',
    unit: '{attempt}',
    description: 'Attempts that have not ended.',
    ...LEVEL,
  },
  waiting: {
    name: 'idempotency.waiter.active',
    unit: '{waiter}',
    description: 'Duplicates that are waiting for an attempt in progress.',
    ...LEVEL,
  },
} satisfies { readonly [Member in keyof OperationReading]: Instrument<OperationReading[Member]> };

/** What counts one operation. */
export type OperationCells = {
  readonly [Member in keyof typeof INSTRUMENTS]: ReturnType<(typeof INSTRUMENTS)[Member]['start']>;
};

export function startOperation(): OperationCells {
  const all = Object.entries(INSTRUMENTS).map(([member, { start }]) => [member, start()]);
  return Object.fromEntries(all) as OperationCells;
}

export function readOperation(cells: OperationCells): OperationReading {
  const all = Object.entries(cells).map(([member, cell]) => [member, cell.read()]);
  return Object.fromEntries(all) as OperationReading;
}

/** The error type of a command that got a reply. */
export const NO_ERROR = '';

const REPLIES_FIRST: Attribute<readonly (StoreErrorType | typeof NO_ERROR)[]> = {
  ...ERROR_TYPE,
  values: [NO_ERROR],
};

/** The instruments of the process as a whole. */
export const PROCESS_INSTRUMENTS = {
  commands: {
    name: 'idempotency.store.command.duration',
    unit: 's',
    description: 'How long commands of the store took, with resends.',
    ...by(COMMAND, by(REPLIES_FIRST, COMMAND_DURATION)),
    attributes: [COMMAND, SYSTEM, ERROR_TYPE],
    read: ({ store: { system, commands } }) =>
      commands.map(({ command, errorType, duration }) => ({
        attributes: commandAttributes(command, system, errorType),
        value: duration,
      })),
  },
  breaker: {
    name: 'idempotency.store.breaker.status',
    kind: 'updowncounter',
    unit: '1',
    description: 'State of the circuit breaker: 1 for the current one, 0 for the others.',
    attributes: [BREAKER],
    read: ({ store: { breaker } }) =>
      breaker === undefined
        ? []
        : BREAKER.values.map((state) => ({
            attributes: { [BREAKER.name]: state },
            value: state === breaker ? 1 : 0,
          })),
  },
  deletedRecords: {
    name: 'idempotency.store.deleted.records',
    kind: 'counter',
    unit: '{record}',
    description: 'Expired records that the store has deleted in this process.',
    attributes: [],
    read: ({ store: { deletedRecords } }) =>
      deletedRecords === undefined ? [] : [{ attributes: {}, value: deletedRecords }],
  },
  missedEntries: {
    name: 'idempotency.journal.missed',
    kind: 'counter',
    unit: '{entry}',
    description: 'Entries that the journal of the store lacks, of changes that this process made.',
    attributes: [],
    read: ({ store: { missedEntries } }) =>
      missedEntries === undefined ? [] : [{ attributes: {}, value: missedEntries }],
  },
  outcomeBytes: {
    name: 'idempotency.outcome.io',
    unit: 'By',
    description:
      'Bytes of outcomes that are compressed, encrypted or in a blob store, as they are stored.',
    ...by(PLACE, by(DIRECTION, COUNTER)),
    read: ({ outcomeBytes }) => samplesOf([PLACE, DIRECTION], outcomeBytes),
  },
  blobs: {
    name: 'idempotency.blob.duration',
    unit: 's',
    description: 'How long the blob store took to put or to get a body.',
    ...by(DIRECTION, by(BLOB_RESULT, DURATION)),
    read: ({ blobs }) => samplesOf([DIRECTION, BLOB_RESULT], blobs),
  },
  uploadWaits: {
    name: 'idempotency.blob.wait.duration',
    unit: 's',
    description: 'How long bodies waited to be put, because as many were put as may be at a time.',
    ...by(BLOB_WAIT_END, DURATION),
    read: ({ uploadWaits }) => samplesOf([BLOB_WAIT_END], uploadWaits),
  },
  reconciled: {
    name: 'idempotency.reconciled.records',
    unit: '{record}',
    description: 'Abandoned records that the reconciler has processed, by the result.',
    ...by(RECONCILED, COUNTER, RECONCILED.values),
    read: ({ reconciled }) => samplesOf([RECONCILED], reconciled),
  },
} satisfies Readonly<Record<string, Metric>>;

/** All metrics. */
export const METRICS: readonly Metric[] = [
  ...Object.entries(INSTRUMENTS).map(([member, instrument]) => ({
    ...instrument,
    attributes: [OPERATION, ...instrument.attributes],
    read: ({ operations }: MeterReading) =>
      [...operations].flatMap(([operation, reading]) =>
        samplesOf(instrument.attributes, reading[member as keyof OperationReading], {
          [OPERATION.name]: operation,
        }),
      ),
  })),
  ...Object.values(PROCESS_INSTRUMENTS),
];

function durations(bounds: readonly number[]): Counting<Histogram> {
  return { kind: 'histogram', attributes: [], bounds, start: () => new Histogram(bounds) };
}

function by<Value extends string, Inner extends Cell, FromStart extends Value = never>(
  attribute: Attribute<readonly Value[]>,
  inner: Counting<Inner>,
  fromStart: readonly FromStart[] = [],
): Counting<CellsBy<Value, Inner, FromStart>> {
  return {
    ...inner,
    attributes: [attribute, ...inner.attributes],
    start: () => new CellsBy(attribute.values, inner.start, fromStart),
  };
}

/** The attributes of a command's duration. */
export function commandAttributes(
  command: StoreCommand,
  system: string,
  errorType?: StoreErrorType,
): Sample['attributes'] {
  return {
    [COMMAND.name]: command,
    [SYSTEM.name]: system,
    ...(errorType !== undefined && { [ERROR_TYPE.name]: errorType }),
  };
}

/** One sample for each combination of the attributes' values. */
function samplesOf(
  [attribute, ...others]: readonly Attribute[],
  reading: unknown,
  outer: Sample['attributes'] = {},
): Sample[] {
  if (attribute === undefined) return [{ attributes: outer, value: reading as SampleValue }];
  return Object.entries(reading as object).flatMap(([value, inner]) =>
    samplesOf(others, inner, { ...outer, [attribute.name]: value }),
  );
}
