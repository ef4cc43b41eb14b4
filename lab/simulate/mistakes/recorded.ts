import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Plan } from '../plan.js';

/** What found a mistake, as small as it could be made. */
export interface Recorded {
  readonly mistake: string;
  readonly objection: string;
  readonly plan: Plan;
}

const FILE = fileURLToPath(new URL('recorded.json', import.meta.url));

export function recorded(): readonly Recorded[] {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Recorded[];
}

export function record(all: readonly Recorded[]): void {
  const lines = all.map((each) => `  ${JSON.stringify(each)}`);
  writeFileSync(FILE, `[\n${lines.join(',\n')}\n]\n`);
}
