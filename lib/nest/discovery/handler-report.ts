import { isObservable, lastValueFrom, tap } from 'rxjs';
import {
  executionScope,
  ExecutionScope,
  InnerScope,
} from '../../core/operation/execution-scope.js';
import { isThenable } from '../../core/util/maybe-async.js';
import { disguise } from './handler-kinds.js';
import { entryOf, type Handler } from './idempotent.metadata.js';

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

/** Makes a wrapper report, too: it may commit, or call a failed method again, after the method itself has settled. */
export function reportedWrapper(wrapper: Handler, entry: Handler): Method {
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
