import { parseArgs } from 'node:util';
import { MUTANTS, type MutantName } from '../faults/worker/mutants.js';
import { oneOf, wholeNumber } from '../command-line.js';
import { faults } from './faults/index.js';
import type { Plan, PlanDefaults } from './plan.js';
import { topologies } from './topologies/index.js';

const DEFAULTS: Required<PlanDefaults> = {
  leaseMs: 10_000,
  effectMs: 5,
  keysAtOnce: 32,
  // What is lost has to be sent again, and the machine is busy: neither is an outage.
  saveTimeoutMs: 10_000,
  commandTimeoutMs: 5_000,
};

export const USAGE = `npm run lab -- chaos [options]
  --requests N         at least so many requests (20000)
  --keys K             … over so many keys (requests / duplicates)
  --duplicates D       … so many of each key (100)
  --workers W          worker processes (4)
  --seed S             the same seed draws the same keys, workers and faults (drawn)
  --faults a,b         ${[...faults.keys()].join(', ')} (none)
  --topology T         ${[...topologies.keys()].join(', ')} (single)
  --on-save-failure P  error or respond (error)
  --wait-replicas N    replicas that have to confirm begins and completions (0)
  --injections N,a=M   go on until each fault was injected N times, and fault a M times (1)
  --transactional      effect and record are one transaction: --topology postgres
  --mutant NAME        a mistake of the workers, which the run has to object to (none)
  --lease-ms, --effect-ms, --keys-at-once, --save-timeout-ms, --command-timeout-ms
  --report NAME        keeps the figures in docs/measurements/figures, and shows them in the documentation`;

/** @throws Error that says what is wrong with the arguments. */
export function planOf(args: readonly string[]): Plan {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      requests: text,
      keys: text,
      duplicates: text,
      workers: text,
      seed: text,
      faults: text,
      topology: text,
      injections: text,
      mutant: text,
      report: text,
      'on-save-failure': text,
      'lease-ms': text,
      'effect-ms': text,
      'keys-at-once': text,
      'save-timeout-ms': text,
      'command-timeout-ms': text,
      'wait-replicas': text,
      transactional: { type: 'boolean' },
    },
  });
  const names = (values.faults ?? '').split(',').filter((name) => name !== '');
  const chosen = names.map((name) => oneOf('faults', name, [...faults.keys()]));
  const wanted = Object.assign(
    { ...DEFAULTS },
    ...chosen.map((name) => faults.get(name)?.defaults),
  ) as Required<PlanDefaults>;
  const number = (
    name: Exclude<keyof typeof values, 'transactional'>,
    fallback: number,
    least = 1,
  ) => wholeNumber(name, values[name], fallback, least);
  const topology = oneOf('topology', values.topology ?? 'single', [...topologies.keys()]);
  for (const name of chosen) canInject(name, topology);
  const { transactional = false } = values;
  if (transactional && topology !== 'postgres') {
    throw new Error('--transactional needs --topology postgres');
  }
  const requests = number('requests', 20_000);
  const keys = values.keys === undefined ? undefined : number('keys', 1);
  const perKey = keys === undefined ? 100 : Math.ceil(requests / keys);
  return {
    requests,
    duplicates: number('duplicates', perKey),
    workers: number('workers', 4),
    seed: number('seed', Math.floor(Math.random() * 1_000_000), 0),
    topology,
    faults: chosen,
    onSaveFailure: oneOf<Plan['onSaveFailure']>(
      'on-save-failure',
      values['on-save-failure'] ?? 'error',
      ['error', 'respond'],
    ),
    leaseMs: number('lease-ms', wanted.leaseMs),
    effectMs: number('effect-ms', wanted.effectMs, 0),
    keysAtOnce: number('keys-at-once', wanted.keysAtOnce),
    saveTimeoutMs: number('save-timeout-ms', wanted.saveTimeoutMs),
    commandTimeoutMs: number('command-timeout-ms', wanted.commandTimeoutMs),
    waitReplicas: number('wait-replicas', 0, 0),
    injections: injectionsOf(chosen, values.injections ?? '1'),
    transactional,
    mutant:
      values.mutant === undefined
        ? undefined
        : oneOf('mutant', values.mutant, Object.keys(MUTANTS) as MutantName[]),
    report: values.report,
  };
}

/** `500` for each of the faults, `500,pause=20` for all but one of them. */
function injectionsOf(chosen: readonly string[], text: string): readonly number[] {
  const wanted = new Map(
    text.split(',').map((part) => {
      const [count = '', name] = part.split('=').reverse();
      if (name !== undefined) oneOf('injections', name, chosen);
      return [name, wholeNumber('injections', count, 1, 1)] as const;
    }),
  );
  return chosen.map((name) => wanted.get(name) ?? wanted.get(undefined) ?? 1);
}

function canInject(name: string, topology: string): void {
  const possible = faults.get(name)?.topologies ?? [topology];
  if (possible.includes(topology)) return;
  throw new Error(`--faults ${name} needs --topology ${possible.join(' or ')}, not ${topology}`);
}
