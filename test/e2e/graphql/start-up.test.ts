import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ClassSerializerInterceptor, type Type, UseInterceptors } from '@nestjs/common';
import {
  Field,
  Int,
  Mutation,
  ObjectType,
  Query,
  ResolveField,
  Resolver,
  ResolveReference,
  Subscription,
} from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { buildSchema, parse, validate } from 'graphql';
import { projectRoot } from '../../support/project-root.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { declared } from '../../integration/nest/support/declared.js';
import { startGraphqlApp } from './support/graphql-app.js';

@ObjectType()
class Thing {
  @Field(() => Int)
  id!: number;
}

/** A resolver with one method. */
const resolver = (name: string, method: string, ...decorators: MethodDecorator[]) =>
  declared(name, [Resolver()], { [method]: decorators });

@Resolver(() => Thing)
class FieldResolver {
  @Query(() => Thing)
  thing(): Thing {
    return { id: 1 };
  }

  @ResolveField(() => Int)
  @Idempotent()
  size(): number {
    return 1;
  }
}

@Idempotent()
class ProtectedBase {}

@Resolver()
class InheritingResolver extends ProtectedBase {
  @Mutation(() => Int)
  make(): number {
    return 1;
  }
}

const mutation = Mutation(() => Int);
const named = Idempotent({ operation: 'things.make' });

describe('the application does not start', () => {
  it.each<[string, Type[], string]>([
    [
      'with @Idempotent() on a query',
      [
        resolver(
          'QueryResolver',
          'count',
          Query(() => Int),
          Idempotent(),
        ),
      ],
      'QueryResolver.count has @Idempotent(), but is not a mutation',
    ],
    [
      'with @Idempotent() on a subscription',
      [
        resolver(
          'SubscriptionResolver',
          'counts',
          Idempotent(),
          Subscription(() => Int),
        ),
      ],
      'SubscriptionResolver.counts has @Idempotent(), but is not a mutation',
    ],
    [
      'with @Idempotent() on a field of a type',
      [FieldResolver],
      'FieldResolver.size has @Idempotent(), but is not a mutation',
    ],
    [
      'with @Idempotent() on a reference resolver',
      [resolver('ReferenceResolver', 'resolveReference', Idempotent(), ResolveReference())],
      'ReferenceResolver.resolveReference has @Idempotent(), but is not a mutation',
    ],
    [
      'with two mutations of one name',
      [
        resolver('OneResolver', 'makeOne', mutation, named),
        resolver('OtherResolver', 'makeOther', mutation, named),
      ],
      'Two operations are named "things.make": OneResolver.makeOne (in ',
    ],
    [
      'with a serializer that would no longer receive class instances',
      [
        declared('SerializedResolver', [Resolver(), UseInterceptors(ClassSerializerInterceptor)], {
          makeSerialized: [mutation, Idempotent()],
        }),
      ],
      'SerializedResolver.makeSerialized returns its value to a ClassSerializerInterceptor',
    ],
    [
      'with an invalid option',
      [resolver('OptionResolver', 'make', mutation, Idempotent({ key: { maxLength: 0 } }))],
      '"key.maxLength"',
    ],
    [
      'with a mutation that only inherits the decorator of its class',
      [InheritingResolver],
      'InheritingResolver.make inherits',
    ],
  ])('%s', async (_, resolvers, message) => {
    const end = await startGraphqlApp({ store: memoryStore(), resolvers }).then(
      (app) => app.close(),
      (error: unknown) => error,
    );
    expect(end).toMatchObject({
      name: 'IdempotencyOptionsError',
      message: expect.stringContaining(message),
    });
  });
});

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

const fileOf = (name: string) => fileURLToPath(new URL(`support/${name}`, import.meta.url));

it('an application without GraphQL runs without its packages', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      ...typescriptNodeOptions,
      '--import',
      new URL('support/no-graphql.mjs', import.meta.url).href,
      fileOf('http-only.ts'),
    ],
    { env: outsideEnvironment() },
  );
  expect(JSON.parse(stdout)).toEqual({
    graphql: 'graphql is not installed',
    responses: [{ charge: 1 }, { charge: 1 }],
  });
});
