import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { buildSchema, parse, validate } from 'graphql';
import { projectRoot } from '../../support/project-root.js';

const PAGE = 'docs/guides/graphql.md';

const SCHEMA = buildSchema(`
  input ChargeInput { amount: Int! }
  type Charge { id: ID! amount: Int! }
  type Query { charges: [Charge!]! }
  type Mutation { charge(input: ChargeInput!, idempotencyKey: String!): Charge }
`);

describe('the GraphQL page', () => {
  it('has valid documents only', () => {
    const page = readFileSync(join(projectRoot, PAGE), 'utf8');
    const documents = [...page.matchAll(/```graphql\n(.*?)```/gs)].map(([, text = '']) => text);
    expect(documents).toHaveLength(1);
    for (const document of documents) expect(validate(SCHEMA, parse(document))).toEqual([]);
  });
});
