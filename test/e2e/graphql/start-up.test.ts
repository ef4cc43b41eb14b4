import { ClassSerializerInterceptor, UseInterceptors, type Type } from '@nestjs/common';
import {
  Int,
  Mutation,
  ObjectType,
  Field,
  Query,
  ResolveField,
  ResolveReference,
  Resolver,
  Subscription,
} from '@nestjs/graphql';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { startGraphqlApp } from './support/graphql-app.js';

@ObjectType()
class Thing {
  @Field(() => Int)
  id!: number;
}

@Resolver()
class QueryResolver {
  @Query(() => Int)
  @Idempotent()
  count(): number {
    return 1;
  }
}

@Resolver()
class SubscriptionResolver {
  @Idempotent()
  @Subscription(() => Int)
  counts(): AsyncIterator<number> {
    throw new Error('never asked');
  }
}

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

@Resolver()
class ReferenceResolver {
  @Idempotent()
  @ResolveReference()
  resolveReference(): number {
    return 1;
  }
}

@Resolver()
class OneResolver {
  @Mutation(() => Int)
  @Idempotent({ operation: 'things.make' })
  makeOne(): number {
    return 1;
  }
}

@Resolver()
class OtherResolver {
  @Mutation(() => Int)
  @Idempotent({ operation: 'things.make' })
  makeOther(): number {
    return 1;
  }
}

@Resolver()
class OptionResolver {
  @Mutation(() => Int)
  @Idempotent({ key: { maxLength: 0 } })
  make(): number {
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

@Resolver()
@UseInterceptors(ClassSerializerInterceptor)
class SerializedResolver {
  @Mutation(() => Int)
  @Idempotent()
  makeSerialized(): number {
    return 1;
  }
}

describe('the application does not start', () => {
  it.each<[string, Type[], string]>([
    [
      'with @Idempotent() on a query',
      [QueryResolver],
      'QueryResolver.count has @Idempotent(), but is not a mutation',
    ],
    [
      'with @Idempotent() on a subscription',
      [SubscriptionResolver],
      'SubscriptionResolver.counts has @Idempotent(), but is not a mutation',
    ],
    [
      'with @Idempotent() on a field of a type',
      [FieldResolver],
      'FieldResolver.size has @Idempotent(), but is not a mutation',
    ],
    [
      'with @Idempotent() on a reference resolver',
      [ReferenceResolver],
      'ReferenceResolver.resolveReference has @Idempotent(), but is not a mutation',
    ],
    [
      'with two mutations of one name',
      [OneResolver, OtherResolver],
      'Two operations are named "things.make": OneResolver.makeOne (in ',
    ],
    [
      'with a serializer that would no longer receive class instances',
      [SerializedResolver],
      'SerializedResolver.makeSerialized returns its value to a ClassSerializerInterceptor',
    ],
    ['with an invalid option', [OptionResolver], '"key.maxLength"'],
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
