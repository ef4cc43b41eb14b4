import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import {
  createIdempotencyContext,
  type IdempotencyTestContextOptions,
} from 'nestjs-idempotency/testing';
import { samplesOf } from '../../support/docs/documented-typescript.js';
import { projectRoot } from '../../support/project-root.js';

const PAGES = ['docs/guides/testing.md', 'docs/guides/testing-applications.md'];

/** They run as tests of their own. */
const folder = join(projectRoot, 'test/e2e/testing/recipes');
const recipes = new Map(
  readdirSync(folder).map((name) => [readFileSync(join(folder, name), 'utf8'), name]),
);

/** The files that the page leaves to its reader. */
const LEFT_OUT = ['bank.ts', 'billing.module.ts', 'mailer.ts', 'payments.ts', 'test-payments.ts'];

describe('the testing pages', () => {
  it('show the tests that run, and what they test', () => {
    const shown = PAGES.flatMap(samplesOf).flatMap((block) => recipes.get(block) ?? []);
    expect([...shown, ...LEFT_OUT].sort()).toEqual([...recipes.values()].sort());
  });

  it('name the options of createIdempotencyContext()', () => {
    let known: string[] = [];
    try {
      createIdempotencyContext({ nothing: 1 } as IdempotencyTestContextOptions);
    } catch (error) {
      known = /Valid options: (.*)\.$/.exec((error as Error).message)![1]!.split(', ');
    }
    const page = readFileSync(join(projectRoot, PAGES[0]!), 'utf8');
    const options = page.matchAll(/^\| `(\w+)` +\| /gm);
    expect([...options].map(([, name]) => name)).toEqual(known);
  });
});
