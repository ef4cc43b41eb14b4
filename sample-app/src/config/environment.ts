import 'reflect-metadata';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plainToInstance, Type } from 'class-transformer';
import {
  IsIn,
  IsInt,
  IsNotEmpty,
  IsOptional,
  IsString,
  Matches,
  Max,
  Min,
  validateSync,
} from 'class-validator';
import type { Duration } from 'nestjs-idempotency';

function IsDuration(): PropertyDecorator {
  return Matches(/^\d+(ms|[smhd])$/, { message: '$property must be a duration such as 10s' });
}

export type Store = 'memory' | 'redis' | 'postgres';
export type Platform = 'express' | 'fastify';

/** All environment variables, with their defaults. */
export class Environment {
  /** Where the idempotency records are stored. */
  @IsIn(['memory', 'redis', 'postgres'])
  STORE: Store = 'memory';

  @IsOptional()
  @Matches(/^rediss?:\/\//, { message: 'REDIS_URL must be a URL such as redis://127.0.0.1:6379' })
  REDIS_URL?: string;

  /** The database of STORE=postgres; by default the application starts one, which ends with it. */
  @IsOptional()
  @Matches(/^postgres(ql)?:\/\//, {
    message: 'DATABASE_URL must be a URL such as postgres://user:password@127.0.0.1:5432/shop',
  })
  DATABASE_URL?: string;

  /** The RabbitMQ that delivers orders; without it none are consumed. */
  @IsOptional()
  @Matches(/^amqps?:\/\//, { message: 'BROKER_URL must be a URL such as amqp://127.0.0.1:5672' })
  BROKER_URL?: string;

  @IsString()
  @IsNotEmpty()
  ORDERS_QUEUE = 'orders';

  /** 0 takes any free port. */
  @Type(() => Number)
  @IsInt()
  @Min(0)
  @Max(65_535)
  PORT = 3000;

  @IsIn(['express', 'fastify'])
  PLATFORM: Platform = 'express';

  /** A second origin whose pages may use the API from a browser. */
  @IsOptional()
  @Matches(/^https?:\/\/[^/]+$/, {
    message: 'CORS_ORIGIN must be an origin such as http://127.0.0.1:5173',
  })
  CORS_ORIGIN?: string;

  /** `console` prints each span, see instrumentation.ts. */
  @IsOptional()
  @IsIn(['console'])
  OTEL?: 'console';

  /**
   * The file of the ledger; by default the ledger is in memory, with Redis a file in the temporary folder, and with
   * PostgreSQL a table, in which a refund commits together with its record.
   */
  @IsOptional()
  @IsString()
  LEDGER_FILE?: string;

  /** Where large responses are stored; processes that share records must share it. */
  @IsString()
  @IsNotEmpty()
  BLOBS_DIRECTORY = join(tmpdir(), 'nestjs-idempotency-sample-blobs');

  /** How long the payment provider takes. */
  @Type(() => Number)
  @IsInt()
  @Min(0)
  PROVIDER_DELAY_MS = 1000;

  /** How long a key stays locked after its process has died. */
  @IsDuration()
  LEASE: Duration = '10s';

  /** How long a payment may hang before its key is released. */
  @IsDuration()
  MAX_EXECUTION: Duration = '1m';

  /** How long the store may take to reply before it counts as down. */
  @IsDuration()
  COMMAND_TIMEOUT: Duration = '500ms';

  /** How long a response waits until its outcome is stored. */
  @IsDuration()
  SAVE_TIMEOUT: Duration = '1s';
}

/** @throws Error that names every invalid variable. */
export function validateEnvironment(variables: Record<string, unknown>): Environment {
  const environment = plainToInstance(Environment, {
    ...variables,
    STORE: variables.STORE ?? (variables.REDIS_URL === undefined ? 'memory' : 'redis'),
  });
  const problems = validateSync(environment).flatMap(({ constraints }) =>
    Object.values(constraints ?? {}),
  );
  if (environment.STORE === 'redis' && environment.REDIS_URL === undefined) {
    problems.push('STORE=redis needs REDIS_URL, for example redis://127.0.0.1:6379');
  }
  if (problems.length > 0) {
    throw new Error(`Invalid environment: ${problems.join('; ')}`);
  }
  return environment;
}
