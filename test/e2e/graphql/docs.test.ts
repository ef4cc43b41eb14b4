import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { buildSchema, parse, validate } from 'graphql';
import { complaintsAbout, samplesOf } from '../../support/documented-typescript.js';
import { projectRoot } from '../../support/project-root.js';

const PAGE = 'docs/graphql.md';

/** What the page leaves to its reader. */
const PAYMENTS = `import type { CanActivate } from '@nestjs/common';
  export declare class ChargeInput { readonly amount: number }
  export declare class Charge { readonly id: string; readonly amount: number }
  export declare class Payments {
    charge(input: ChargeInput): Promise<Charge>;
    settle(): Promise<{ cents: number; at: Date }>;
  }
  export declare class SessionGuard implements CanActivate { canActivate(): boolean }`;

const SCHEMA = buildSchema(`
  directive @idempotent(key: String!) on FIELD
  input ChargeInput { amount: Int! }
  type Charge { id: ID! amount: Int! }
  type Query { charges: [Charge!]! }
  type Mutation { charge(input: ChargeInput!): Charge }
`);

describe('the page about GraphQL', () => {
  it('has TypeScript that compiles as it stands', () => {
    const samples = samplesOf(PAGE);
    expect(samples).toHaveLength(2);
    expect(complaintsAbout(samples, { 'payments.ts': PAYMENTS })).toEqual([]);
  }, 60_000);

  it('has documents that are valid', () => {
    const page = readFileSync(join(projectRoot, PAGE), 'utf8');
    const documents = [...page.matchAll(/```graphql\n(.*?)```/gs)].map(([, text = '']) => text);
    expect(documents).toHaveLength(1);
    for (const document of documents) expect(validate(SCHEMA, parse(document))).toEqual([]);
  });
});
