import {
  Module,
  type CanActivate,
  type DynamicModule,
  type FactoryProvider,
  type ModuleMetadata,
  type Provider,
  type Type,
} from '@nestjs/common';
import {
  checkNames,
  checkObject,
  throwOptionError,
  within,
} from '../core/options/option-checks.js';
import { isFunction, isText } from '../core/options/option-schema.js';
import { IdempotencyEvents } from '../core/record/idempotency-events.js';
import { AccessGuard } from './access.guard.js';
import { CONSOLE, consoleOptions, type IdempotencyConsoleOptions } from './console-options.js';
import { ConsoleReply } from './console-reply.js';
import { consoleController } from './console.controller.js';
import { RecentEvents } from './recent-events.js';

/** Where the console is, and who gets in. */
export interface IdempotencyConsolePlace {
  /** Of the console's pages, after the application's global prefix. @defaultValue 'idempotency' */
  readonly path?: string;
  /**
   * Classes or instances of the application. They run before everything else, in this order: without them, everybody would
   * see the records.
   */
  readonly guards: readonly (Type<CanActivate> | CanActivate)[];
  /** Put on the controller, such as `Public()` where a global guard asks for what operators do not have. @defaultValue none */
  readonly decorators?: readonly ClassDecorator[];
  /** Modules with what the guards inject, and that of `IdempotencyModule` where it is not global. @defaultValue none */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
}

/** Of {@link IdempotencyConsoleModule.forRootAsync}. */
export interface IdempotencyConsoleAsyncOptions extends IdempotencyConsolePlace {
  /** What `useFactory` gets. @defaultValue none */
  readonly inject?: FactoryProvider['inject'];
  /** Makes the options, or a promise of them. */
  readonly useFactory: (
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- Nest knows their types, TypeScript does not.
    ...injected: any[]
  ) => IdempotencyConsoleOptions | Promise<IdempotencyConsoleOptions>;
}

const PLACE = ['path', 'guards', 'decorators', 'imports'] as const;

/**
 * A console for operators, in the browser: what runs and what was left behind, the record of a key, and what can be done
 * about it. Everything it shows and does is `IdempotencyRecords`'. It needs no JavaScript, and never shows a key, a caller or
 * a body. Import it beside `IdempotencyModule`.
 * @throws {@link IdempotencyOptionsError} without a guard, and for an invalid option.
 * @example
 * ```ts
 * IdempotencyConsoleModule.forRoot({
 *   path: 'admin/idempotency',
 *   guards: [AdminGuard],
 *   operator: (context) => {
 *     const { user } = context.switchToHttp().getRequest();
 *     return { actor: user.email, may: user.isAdmin ? ['read', 'release', 'complete'] : ['read'] };
 *   },
 *   readOnly: false,
 * });
 * ```
 */
@Module({})
export class IdempotencyConsoleModule {
  /** Takes the options as they are. */
  static forRoot(options: IdempotencyConsolePlace & IdempotencyConsoleOptions): DynamicModule {
    const what = 'IdempotencyConsoleModule.forRoot()';
    checkObject(what, options);
    return placed(what, options, {
      provide: CONSOLE,
      useValue: consoleOptions(what, without(options, PLACE)),
    });
  }

  /** Takes a factory; where the console is, and its guards, stand beside it: Nest reads them before there are providers. */
  static forRootAsync(options: IdempotencyConsoleAsyncOptions): DynamicModule {
    const what = 'IdempotencyConsoleModule.forRootAsync()';
    checkNames(what, options, new Set([...PLACE, 'inject', 'useFactory']));
    const { useFactory, inject = [] } = options;
    within(what, what, () => {
      if (!isFunction(useFactory)) throwOptionError('useFactory', 'a function', useFactory);
    });
    return placed(what, options, {
      provide: CONSOLE,
      inject,
      useFactory: async (...injected: unknown[]) =>
        consoleOptions(what, await useFactory(...injected)),
    });
  }
}

function placed(
  what: string,
  { path = 'idempotency', guards, decorators = [], imports = [] }: IdempotencyConsolePlace,
  options: Provider,
): DynamicModule {
  within(what, what, () => {
    if (!isText(path)) throwOptionError('path', "a path, such as 'admin/idempotency'", path);
    if (!Array.isArray(guards) || guards.length === 0) {
      throwOptionError(
        'guards',
        'a list of at least one guard, because without one everybody would see the records',
        guards,
      );
    }
  });
  return {
    module: IdempotencyConsoleModule,
    imports: [...imports],
    controllers: [consoleController(path, guards, decorators)],
    providers: [
      options,
      AccessGuard,
      ConsoleReply,
      {
        provide: RecentEvents,
        inject: [IdempotencyEvents],
        useFactory: (events: IdempotencyEvents) => new RecentEvents(events),
      },
    ],
  };
}

function without(given: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(given).filter(([name]) => !names.includes(name)));
}
