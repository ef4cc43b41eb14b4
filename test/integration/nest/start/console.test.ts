import { afterEach, expect, it } from '@jest/globals';
import { Injectable, Module, type CanActivate, type INestApplication } from '@nestjs/common';
import { IdempotencyModule } from 'nestjs-idempotency';
import { IdempotencyConsoleModule } from 'nestjs-idempotency/console';
import { memoryStore } from 'nestjs-idempotency/memory';
import { NestFactory } from '@nestjs/core';

const operator = () => ({ actor: 'mia', may: ['read'] as const });
const guards = [{ canActivate: () => true }];

let nest: INestApplication | undefined;
afterEach(async () => {
  await nest?.close();
  nest = undefined;
});

it.each<[string, object, RegExp]>([
  ['no guards', { operator }, /forRoot\(\): .*"guards" must be a list of at least one guard/],
  ['an empty list of guards', { operator, guards: [] }, /"guards" must be/],
  ['no operator', { guards }, /"operator" must be a function/],
  ['a misspelt option', { guards, operator, readonly: false }, /Did you mean "readOnly"\?/],
  [
    'a text as readOnly',
    { guards, operator, readOnly: 'false' },
    /"readOnly" must be true or false/,
  ],
  [
    'an origin that is none',
    { guards, operator, trustedOrigins: ['https://ops.example.com/'] },
    /"trustedOrigins" must be a list of origins/,
  ],
  ['an empty path', { guards, operator, path: '' }, /"path" must be a path/],
])('A console with %s does not start', (_, options, message) => {
  const start = () => IdempotencyConsoleModule.forRoot(options as never);
  expect(start).toThrow(message);
  expect(start).toThrow(expect.objectContaining({ code: 'idempotency_options_invalid' }));
});

@Injectable()
class Roles {
  isAdmin(name: unknown): boolean {
    return name === 'mia';
  }
}

@Module({ providers: [Roles], exports: [Roles] })
class RolesModule {}

@Injectable()
class RolesGuard implements CanActivate {
  constructor(private readonly roles: Roles) {}

  canActivate(context: any): boolean {
    return this.roles.isAdmin(context.switchToHttp().getRequest().headers['x-name']);
  }
}

async function listening(
  console: ReturnType<typeof IdempotencyConsoleModule.forRootAsync>,
): Promise<string> {
  @Module({ imports: [IdempotencyModule.forRoot({ store: memoryStore() }), console] })
  class AppModule {}

  nest = await NestFactory.create(AppModule, { logger: false, abortOnError: false });
  await nest.listen(0, '127.0.0.1');
  return `${await nest.getUrl()}/idempotency`;
}

it('takes guards and a factory that inject what a module has', async () => {
  const url = await listening(
    IdempotencyConsoleModule.forRootAsync({
      guards: [RolesGuard],
      imports: [RolesModule],
      inject: [Roles],
      useFactory: (roles: Roles) => ({
        operator: () => ({ actor: 'mia', may: roles.isAdmin('mia') ? ['read'] : [] }),
      }),
    }),
  );
  expect((await fetch(url, { headers: { 'x-name': 'kim' } })).status).toBe(403);
  expect((await fetch(url, { headers: { 'x-name': 'mia' } })).status).toBe(200);
});

it('refuses an option beside the factory, where it would be ignored', () => {
  const options = { guards, useFactory: () => ({ operator }), readOnly: false };
  expect(() => IdempotencyConsoleModule.forRootAsync(options as never)).toThrow(
    /"readOnly" is not an option of IdempotencyConsoleModule.forRootAsync\(\)/,
  );
});

it('does not start with a factory that returns no operator', async () => {
  const starting = listening(
    IdempotencyConsoleModule.forRootAsync({ guards, useFactory: () => ({}) as never }),
  );
  await expect(starting).rejects.toThrow(/forRootAsync\(\).*"operator" must be a function/);
});
