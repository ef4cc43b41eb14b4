import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { RECONCILE_DEFAULTS } from '../../../lib/core/reconcile-options.js';
import { complaintsAbout, samplesOf } from '../../support/documented-typescript.js';
import { projectRoot } from '../../support/project-root.js';

const PAGE = 'docs/recovery.md';
const page = readFileSync(join(projectRoot, PAGE), 'utf8');
const samples = samplesOf(PAGE);

/** What the page leaves to its reader, and what one sample takes from another. */
const OTHER_FILES = {
  'payments.ts': `export declare class Payments {
    findByKey(key: string, scope: readonly unknown[], signal: AbortSignal): Promise<{ id: number } | undefined>;
  }`,
  'recover-payment.ts': samples[0] ?? '',
};

describe('the page about recovery', () => {
  it('has TypeScript that compiles as it stands', () => {
    expect(samples).not.toEqual([]);
    expect(complaintsAbout(samples, OTHER_FILES)).toEqual([]);
  }, 60_000);

  it('tells the defaults as they are', () => {
    const rows = [...page.matchAll(/^\| `(\w+Ms|batchSize)` +\| `(\d+)`/gm)];
    const told = rows.map(([, name = '', value]) => [name, Number(value)]);
    expect(Object.fromEntries(told)).toEqual(RECONCILE_DEFAULTS);
  });
});
