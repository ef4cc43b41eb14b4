import type { CompleteReply, ExtendReply, ReleaseReply } from '../record/commands.js';

type Kinds<Reply extends { readonly kind: string }> = Readonly<Record<Reply['kind'], true>>;

const EXTEND: Kinds<ExtendReply> = {
  ok: true,
  revived: true,
  lost: true,
  gone: true,
  max_execution: true,
  not_in_progress: true,
};

const COMPLETE: Kinds<CompleteReply> = {
  ok: true,
  ok_late: true,
  already: true,
  superseded: true,
  lost: true,
  restored: true,
  gone: true,
};

const RELEASE: Kinds<ReleaseReply> = {
  ok: true,
  already: true,
  not_in_progress: true,
  lost: true,
  gone: true,
};

const KINDS = { extend: EXTEND, complete: COMPLETE, release: RELEASE };

/** @throws TypeError for an unknown reply of a custom store, which confirms nothing: it counts as a failed command. */
export function checkedReply<Reply extends { readonly kind: string }>(
  command: keyof typeof KINDS,
  reply: Reply,
): Reply {
  const kind = (reply as Reply | undefined)?.kind;
  if (kind !== undefined && Object.hasOwn(KINDS[command], kind)) return reply;
  throw unexpectedReply(command);
}

export function unexpectedReply(command: string): TypeError {
  return new TypeError(
    `Unexpected reply from store.${command}(). Test the store with nestjs-idempotency/testing/store.`,
  );
}
