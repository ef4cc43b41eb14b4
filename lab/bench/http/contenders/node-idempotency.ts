import type { DynamicModule } from '@nestjs/common';
import type { OpenContender } from '../contender.js';
import { loadPackage } from '../load-package.js';

interface NodeIdempotency {
  readonly Idempotent: () => MethodDecorator;
  readonly NodeIdempotencyModule: { forRootAsync(options: object): DynamicModule };
  readonly StorageAdapterEnum: { readonly redis: string };
}

/** `@node-idempotency/nestjs`, on its Redis adapter. */
export const nodeIdempotency: OpenContender = ({ redisUrl }) => {
  const { Idempotent, NodeIdempotencyModule, StorageAdapterEnum } = loadPackage(
    '@node-idempotency/nestjs',
  ) as NodeIdempotency;
  const storage = { adapter: StorageAdapterEnum.redis, options: { url: redisUrl } };
  return {
    modules: [NodeIdempotencyModule.forRootAsync({ storage })],
    mark: Idempotent(),
  };
};
