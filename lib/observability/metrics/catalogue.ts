import { DURATION_BOUNDS } from '../../core/meter/cells.js';
import type {
  HistogramReading,
  MeterReading,
  OperationReading,
} from '../../core/meter/meter-reading.js';
import { COMMAND_BOUNDS } from '../../core/meter/store-cells.js';
import {
  BREAKER,
  COMMAND,
  ERROR_TYPE,
  INCIDENT,
  LOSS_REASON,
  OPERATION,
  OUTCOME,
  RECONCILED,
  RESULT,
  SYSTEM,
  TRANSPORT,
  WAIT_END,
  type Attribute,
} from './attributes.js';

/** One series of a metric. */
export interface Sample<Value> {
  /** By the attributes' names. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly value: Value;
}

export interface Described<Kind, Value> {
  /** By the conventions of OpenTelemetry. */
  readonly name: string;
  readonly kind: Kind;
  /** In UCUM: `s`, `1`, or what is counted, in braces. */
  readonly unit: string;
  readonly description: string;
  readonly attributes: readonly Attribute[];
  readonly read: (reading: MeterReading) => readonly Sample<Value>[];
}

export type NumberMetric = Described<'counter' | 'updowncounter', number>;
export interface HistogramMetric extends Described<'histogram', HistogramReading> {
  /** The upper bounds of its buckets. */
  readonly bounds: readonly number[];
}
export type Metric = NumberMetric | HistogramMetric;

/** OpenTelemetry cannot read histograms: it has to be given each duration. */
export const DURATIONS = {
  attempt: {
    name: 'idempotency.attempt.duration',
    kind: 'histogram',
    unit: 's',
    description: 'How long attempts took, from their begin to the stored outcome.',
    attributes: [OPERATION, OUTCOME],
    bounds: DURATION_BOUNDS,
    read: ofOperations(({ attempts }) => samplesOf(OUTCOME, attempts)),
  },
  wait: {
    name: 'idempotency.wait.duration',
    kind: 'histogram',
    unit: 's',
    description: 'How long duplicates waited for an attempt in progress.',
    attributes: [OPERATION, WAIT_END],
    bounds: DURATION_BOUNDS,
    read: ofOperations(({ waits }) => samplesOf(WAIT_END, waits)),
  },
  command: {
    name: 'idempotency.store.command.duration',
    kind: 'histogram',
    unit: 's',
    description: 'How long commands of the store took, with resends.',
    attributes: [COMMAND, SYSTEM, ERROR_TYPE],
    bounds: COMMAND_BOUNDS,
    read: ({ store: { system, commands } }) =>
      commands.map(({ command, errorType, duration }) => ({
        attributes: {
          [COMMAND.name]: command,
          [SYSTEM.name]: system,
          ...(errorType !== undefined && { [ERROR_TYPE.name]: errorType }),
        },
        value: duration,
      })),
  },
} satisfies Readonly<Record<string, HistogramMetric>>;

/**
 * All metrics, and how each is read. What the exporters, their documentation, the rules and the dashboard know about
 * metrics is this.
 */
export const METRICS: readonly Metric[] = [
  {
    name: 'idempotency.requests',
    kind: 'counter',
    unit: '{request}',
    description: 'Requests of idempotent operations, by their result.',
    attributes: [OPERATION, TRANSPORT, RESULT],
    read: ofOperations(({ requests }) =>
      Object.entries(requests).flatMap(([transport, results]) =>
        samplesOf(RESULT, results, { [TRANSPORT.name]: transport }),
      ),
    ),
  },
  {
    name: 'idempotency.incidents',
    kind: 'counter',
    unit: '{incident}',
    description: 'Events of attempts that show a problem.',
    attributes: [OPERATION, INCIDENT],
    read: ofOperations(({ incidents }) => samplesOf(INCIDENT, incidents)),
  },
  {
    name: 'idempotency.takeovers',
    kind: 'counter',
    unit: '{takeover}',
    description: 'Attempts that began because the lease of an earlier one had expired.',
    attributes: [OPERATION],
    read: ofOperations(({ takeovers }) => single(takeovers)),
  },
  {
    name: 'idempotency.lease.losses',
    kind: 'counter',
    unit: '{loss}',
    description: 'How often an attempt could no longer rely on its lease.',
    attributes: [OPERATION, LOSS_REASON],
    read: ofOperations(({ leaseLosses }) => samplesOf(LOSS_REASON, leaseLosses)),
  },
  DURATIONS.attempt,
  DURATIONS.wait,
  {
    name: 'idempotency.attempt.active',
    kind: 'updowncounter',
    unit: '{attempt}',
    description: 'Attempts that have not ended.',
    attributes: [OPERATION],
    read: ofOperations(({ running }) => single(running)),
  },
  {
    name: 'idempotency.waiter.active',
    kind: 'updowncounter',
    unit: '{waiter}',
    description: 'Duplicates that are waiting for an attempt in progress.',
    attributes: [OPERATION],
    read: ofOperations(({ waiting }) => single(waiting)),
  },
  DURATIONS.command,
  {
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
  {
    name: 'idempotency.store.deleted.records',
    kind: 'counter',
    unit: '{record}',
    description: 'Expired records that the store has deleted in this process.',
    attributes: [],
    read: ({ store: { deletedRecords } }) =>
      deletedRecords === undefined ? [] : single(deletedRecords),
  },
  {
    name: 'idempotency.reconciled.records',
    kind: 'counter',
    unit: '{record}',
    description: 'Abandoned records that the reconciler has processed, by the result.',
    attributes: [RECONCILED],
    read: ({ reconciled }) => samplesOf(RECONCILED, reconciled),
  },
];

/** As the translation of OTLP for Prometheus names it. */
export function prometheusName({ name, kind, unit }: Metric): string {
  const suffix = `${unit === 's' ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`;
  return `${prometheusLabel(name)}${suffix}`;
}

export function prometheusLabel(attribute: string): string {
  return attribute.replaceAll('.', '_');
}

function ofOperations<Value>(
  read: (reading: OperationReading) => readonly Sample<Value>[],
): (reading: MeterReading) => readonly Sample<Value>[] {
  return ({ operations }) =>
    Array.from(operations).flatMap(([operation, reading]) =>
      read(reading).map(({ attributes, value }) => ({
        attributes: { [OPERATION.name]: operation, ...attributes },
        value,
      })),
    );
}

function samplesOf<Value>(
  { name }: Attribute,
  values: Readonly<Partial<Record<string, Value>>>,
  others: Sample<Value>['attributes'] = {},
): Sample<Value>[] {
  return (Object.entries(values) as [string, Value][]).map(([label, value]) => ({
    attributes: { ...others, [name]: label },
    value,
  }));
}

function single<Value>(value: Value): Sample<Value>[] {
  return [{ attributes: {}, value }];
}
