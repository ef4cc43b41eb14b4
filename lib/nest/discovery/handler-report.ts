import { isObservable, lastValueFrom, tap } from 'rxjs';
import {
  executionScope,
  ExecutionScope,
  InnerScope,
} from '../../core/operation/execution-scope.js';
import { isThenable } from '../../core/util/maybe-async.js';
import { membersOf } from './handler-facts.js';
import { entryOf, type Handler } from './idempotent.metadata.js';
import { isHandler } from './nest-metadata.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** The execution scope that a call of a method, or of its wrapper, belongs to. */
export function operationOf(entry: Handler): ExecutionScope | undefined {
  const operation = executionScope.getStore();
  if (!(operation instanceof ExecutionScope)) return undefined;
  // A wrapper that Nest calls has the same metadata.
  const isOwn = operation.handler === entry || entryOf(operation.handler) === entry;
  return isOwn ? operation : undefined;
}

/** Runs the operation's method and reports how it ends. */
export function enter(operation: ExecutionScope, run: () => unknown): unknown {
  operation.enter();
  return reported(operation, () => executionScope.run<unknown>(new InnerScope(operation), run));
}

const reporting = new WeakSet<Handler>();

/** Makes the wrappers around the handlers of a class report. Called before Nest scans it, after all its decorators. */
export function reportWrappers(prototype: object): void {
  for (const { holder, property, entry, method } of membersOf(prototype)) {
    const isWrapper = method !== undefined && method !== entry && entryOf(method) === entry;
    // A method that is not a handler protects itself, whatever wraps it.
    if (!isWrapper || entry === undefined || !isHandler(method) || reporting.has(method)) continue;
    const value = reportedWrapper(method, entry);
    reporting.add(value);
    Reflect.defineProperty(holder, property, { value });
  }
}

/** Makes a wrapper report, too: it may commit, or call a failed method again, after the method itself has settled. */
function reportedWrapper(wrapper: Handler, entry: Handler): Method {
  const reporting: Method = function (...args) {
    const run = () => Reflect.apply(wrapper, this, args) as unknown;
    const operation = operationOf(entry);
    if (operation === undefined) return run();
    operation.enterWrapper();
    const leave = (how: 'returned' | 'threw') => {
      operation.leaveWrapper(how);
    };
    return reported({ emissions: operation.emissions, leave }, run);
  };
  disguise(reporting, wrapper, entry.name);
  return reporting;
}

interface Report {
  readonly emissions: ExecutionScope['emissions'];
  leave(how: 'returned' | 'threw'): void;
}

function reported(report: Report, run: () => unknown): unknown {
  try {
    return leaving(report, run());
  } catch (error) {
    report.leave('threw');
    throw error;
  }
}

/** Over HTTP an Observable's last value is awaited here: Nest drops the Observable when the client disconnects. */
function leaving(report: Report, result: unknown): unknown {
  if (isObservable(result)) {
    if (report.emissions === 'last') return leaving(report, lastValueFrom(result));
    return result.pipe(
      tap({
        complete: () => {
          report.leave('returned');
        },
        error: () => {
          report.leave('threw');
        },
        unsubscribe: () => {
          report.leave('threw');
        },
      }),
    );
  }
  if (!isThenable(result)) {
    report.leave('returned');
    return result;
  }
  return Promise.resolve(result).then(
    (value) => {
      if (isObservable(value)) return leaving(report, value);
      report.leave('returned');
      return value;
    },
    (error: unknown) => {
      report.leave('threw');
      throw error;
    },
  );
}

/** Makes `substitute` look like `method`: same metadata, name, length, and asynchronous or not. */
export function disguise(substitute: Handler, method: Handler, name = method.name): void {
  for (const key of Reflect.getOwnMetadataKeys(method) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), substitute);
  }
  Object.defineProperties(substitute, {
    name: { value: name, configurable: true },
    length: { value: method.length, configurable: true },
  });
  // Decorators recognise an asynchronous function by its prototype (`constructor.name` is then "AsyncFunction").
  Object.setPrototypeOf(substitute, Object.getPrototypeOf(method) as object);
}
