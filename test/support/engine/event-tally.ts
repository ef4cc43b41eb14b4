import type { IdempotencyEvent, MeterReading } from 'nestjs-idempotency';

type Numbers = Record<string, number>;

const OUTCOMES: Readonly<Record<string, string>> = {
  ...{ completed: 'kept', failed: 'kept', recovered: 'kept', released: 'released' },
  ...{ superseded: 'lost', diverged: 'lost' },
};

const WITHOUT_INCIDENT: readonly string[] = [
  ...['acquired', 'takeover', 'recovered', 'replayed', 'waited', 'rejected', 'invalid_request'],
  ...['completed', 'released', 'ended', 'store_unavailable'],
];

/** Counts events as the meter has to. */
export class EventTally {
  readonly numbers: Numbers = {};

  add(event: IdempotencyEvent): void {
    if (event.operation === undefined) return;
    const { type, operation, transport } = event;
    const add = (...name: string[]) => {
      const line = [operation, ...name].join(' ');
      this.numbers[line] = (this.numbers[line] ?? 0) + 1;
    };
    const addRequest = (result: string) => {
      if (transport !== undefined) add('requests', transport, result);
    };
    const isBypass = event.type === 'unprotected' && event.reason !== 'store_unavailable';
    if (!WITHOUT_INCIDENT.includes(type) && !isBypass) add('incidents', type);
    switch (event.type) {
      case 'takeover':
        add('takeovers');
        break;
      case 'replayed':
        addRequest(type);
        break;
      case 'unprotected':
        addRequest(isBypass ? `${type}_${event.reason}` : type);
        break;
      case 'rejected':
      case 'invalid_request':
        addRequest(event.reason);
        break;
      case 'lease_lost':
        add('leaseLosses', event.reason);
        break;
      case 'waited':
        add('waits', event.end);
        break;
      case 'ended': {
        if (transport === undefined || event.how === 'not_started') break;
        const isProtected = event.fencingToken !== 0;
        if (isProtected) addRequest(event.how === 'recovered' ? 'recovered' : 'executed');
        add('attempts', OUTCOMES[event.how] ?? 'error');
        break;
      }
      default:
    }
  }
}

/** The numbers of a reading that are not 0, named as by {@link EventTally}. */
export function numbersOf({ operations }: MeterReading): Numbers {
  const all = [...operations].flatMap(([operation, reading]) =>
    [
      ...Object.entries(reading.requests).flatMap(([transport, results]) =>
        Object.entries(results).map(([result, count]) => [
          `requests ${transport} ${result}`,
          count,
        ]),
      ),
      ...Object.entries(reading.incidents).map(([type, count]) => [`incidents ${type}`, count]),
      ...Object.entries(reading.leaseLosses).map(([name, count]) => [`leaseLosses ${name}`, count]),
      ...Object.entries(reading.attempts).map(([name, { count }]) => [`attempts ${name}`, count]),
      ...Object.entries(reading.waits).map(([name, { count }]) => [`waits ${name}`, count]),
      ['takeovers', reading.takeovers],
      ['running', reading.running],
      ['waiting', reading.waiting],
    ].map(([name, count]) => [`${operation} ${name}`, count] as [string, number]),
  );
  return Object.fromEntries(all.filter(([, count]) => count !== 0));
}
