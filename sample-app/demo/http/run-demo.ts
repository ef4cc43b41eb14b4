import { setTimeout as sleep } from 'node:timers/promises';
import type { Observation, ScenarioContext, Scenario } from './scenario.js';
import { scenarios } from './scenarios/index.js';
import { LEASE_MS, PROVIDER_DELAY_MS, DemoEnvironment } from './environment.js';
import { type Row, tableHead, tableRow } from './table.js';

/** It ends what hangs: a process that starts on a busy machine takes many seconds. */
const TIME_LIMIT_MS = 60_000;

/** Runs all scenarios and prints a row for each. */
export async function runDemo(): Promise<boolean> {
  const startedAt = performance.now();
  const environment = await DemoEnvironment.set();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void environment.clear().finally(() => process.exit(1)));
  }
  try {
    const apis: ScenarioContext['apis'] = [
      await environment.startApi(),
      await environment.startApi(),
    ];
    console.log(introduction(environment, apis));
    console.log(tableHead());
    const context: ScenarioContext = { environment, apis, firstBodies: new Map() };
    let allWell = true;
    for (const scenario of scenarios) {
      const row = await perform(scenario, context);
      console.log(tableRow(row));
      allWell &&= row.failures.length === 0;
    }
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(
      `\n${allWell ? 'All scenarios passed' : 'Some scenarios failed'} after ${seconds} s.`,
    );
    return allWell;
  } finally {
    await environment.clear();
  }
}

/** Counts the charges in the ledger's file, independently of the library and the API. */
async function perform(scenario: Scenario, context: ScenarioContext): Promise<Row> {
  const before = context.environment.ledger.charges().length;
  const { responses, checks } = await observe(scenario, context);
  const added = context.environment.ledger.charges().slice(before);
  const failures = Object.entries(checks)
    .filter(([, holds]) => !holds)
    .map(([check]) => check);
  if (added.length !== scenario.charges) failures.push(`${scenario.charges} in the ledger`);
  const paid = new Set(added.map(({ userId, description }) => `${userId}: ${description}`));
  if (paid.size !== added.length) failures.push('one charge for each payment');
  return { scenario, responses, charges: added.length, failures };
}

/** A scenario that throws or hangs fails; the demo continues. */
async function observe(scenario: Scenario, context: ScenarioContext): Promise<Observation> {
  const abandon = new AbortController();
  const tooLong = sleep(TIME_LIMIT_MS, 'it completes in time', { signal: abandon.signal });
  try {
    const observation = await Promise.race([scenario.run(context), tooLong]);
    if (typeof observation !== 'string') return observation;
    return { responses: [], checks: { [observation]: false } };
  } catch (error) {
    return { responses: [], checks: { [`it does not throw: ${String(error)}`]: false } };
  } finally {
    abandon.abort();
  }
}

function introduction({ redis }: DemoEnvironment, apis: ScenarioContext['apis']): string {
  const [delay, lease] = [PROVIDER_DELAY_MS / 1000, LEASE_MS / 1000];
  return `
Two processes of the payments API, ${apis.map(({ url }) => url).join(' and ')}, share one Redis ${redis.version}.
Every scenario but the last uses both. A charge takes ${delay} s, a lease lasts ${lease} s. Charges are counted in the ledger's file.
`;
}
