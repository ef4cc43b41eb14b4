import { Global, Module } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import type { Environment } from '../config/environment.js';
import { Ledger } from '../ledger/ledger.js';
import { inMemory } from './in-memory.js';
import { inPostgres } from './in-postgres.js';
import { inRedis } from './in-redis.js';
import { Persistence } from './persistence.js';

const places = { memory: inMemory, redis: inRedis, postgres: inPostgres };

@Global()
@Module({
  providers: [
    {
      provide: Persistence,
      inject: [ConfigService],
      useFactory: (config: ConfigService<Environment, true>) =>
        places[config.get('STORE', { infer: true })](config),
    },
    {
      provide: Ledger,
      inject: [Persistence],
      useFactory: ({ ledger }: Persistence) => ledger,
    },
  ],
  exports: [Persistence, Ledger],
})
export class PersistenceModule {}
