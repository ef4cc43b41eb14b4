import type { ExecutionContext } from '@nestjs/common';
import type { OperatorAction } from '../core/operator/operator-options.js';
import {
  checkList,
  flag,
  isFunction,
  of,
  resolveOptions,
  type Schema,
} from '../core/options/option-schema.js';
import { throwOptionError, within } from '../core/options/option-checks.js';

/**
 * What an operator may do. `read`: every page. `even_if_running`: an action also while an attempt has the record, or before
 * its outcome has been stored for `operator.settledFor`. `bulk`: an action on several records at once. None implies another.
 */
export type ConsolePermission = 'read' | OperatorAction | 'even_if_running' | 'bulk';

/** Who uses the console, and what he may do. */
export interface ConsoleOperator {
  /** For the audit and the pages: 1 to 500 characters. */
  readonly actor: string;
  /** All that is not among these is denied. */
  readonly may: readonly ConsolePermission[];
}

/** How the console serves operators. */
export interface IdempotencyConsoleOptions {
  /**
   * Says who sends the request, after the guards have let it in. A request for which it throws, or returns no actor, gets
   * 403. It may return a promise.
   * @defaultValue none: required
   */
  readonly operator: (context: ExecutionContext) => ConsoleOperator | Promise<ConsoleOperator>;
  /**
   * Whether nothing can be changed: the routes of the actions then do not exist, whatever `operator` permits.
   * @defaultValue true
   */
  readonly readOnly?: boolean;
  /**
   * Origins from which forms are accepted besides that of the request's own host, such as `https://ops.example.com`: for a
   * proxy that changes the `Host`. Only asked where the browser sends no `Sec-Fetch-Site`.
   * @defaultValue none
   */
  readonly trustedOrigins?: readonly string[];
}

export type ResolvedConsoleOptions = Required<IdempotencyConsoleOptions>;

/** Before it is known whether `operator` is given. */
type Checked = Omit<ResolvedConsoleOptions, 'operator'> &
  Partial<Pick<ResolvedConsoleOptions, 'operator'>>;

export const CONSOLE_OPTIONS: Schema<IdempotencyConsoleOptions, Checked> = {
  operator: of('a function', isFunction, { defaultText: 'none: required' }),
  readOnly: flag(true),
  trustedOrigins: {
    default: [],
    defaultText: 'none',
    check: (option, value) => {
      checkList(option, value, (name, item) => {
        if (!isOrigin(item))
          throwOptionError(name, "a list of origins, such as 'https://ops.example.com'", item);
      });
    },
    read: (value) => [...value],
  },
};

function isOrigin(item: unknown): boolean {
  return typeof item === 'string' && URL.canParse(item) && new URL(item).origin === item;
}

/** @param what - the function of the module that takes them. */
export function consoleOptions(what: string, given: object): ResolvedConsoleOptions {
  const { operator, ...others } = resolveOptions(what, CONSOLE_OPTIONS, given);
  return {
    ...others,
    operator:
      operator ?? within(what, what, () => throwOptionError('operator', 'a function', operator)),
  };
}

export const PERMISSIONS: readonly ConsolePermission[] = [
  'read',
  'release',
  'complete',
  'reopen',
  'redact',
  'retain',
  'delete',
  'even_if_running',
  'bulk',
];

/** Token of the {@link ResolvedConsoleOptions}. */
export const CONSOLE = Symbol('IdempotencyConsole');
