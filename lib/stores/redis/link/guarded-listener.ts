/**
 * The listener of a subscription, whose errors must not reach the client: they would end its reading of replies, and some
 * clients give each later reply to the command before. They are process warnings, code `IDEMPOTENCY_REDIS_LISTENER`.
 */
export function guarded(listener: (channel: string) => void): (channel: string) => void {
  return (channel) => {
    try {
      listener(channel);
    } catch (error) {
      process.emitWarning(`A listener of a channel of Redis threw an error: ${String(error)}`, {
        type: 'IdempotencyWarning',
        code: 'IDEMPOTENCY_REDIS_LISTENER',
      });
    }
  };
}
