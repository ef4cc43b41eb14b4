import type { ExecutionContext } from '@nestjs/common';

/** The request after your guard, which has checked that this user belongs to this tenant. */
export interface GuardedRequest {
  readonly user?: { readonly tenant: string; readonly id: string };
}

// #region user
/** Each user of a tenant has their own keys. */
export function tenantAndUser(context: ExecutionContext) {
  const { user } = context.switchToHttp().getRequest<GuardedRequest>();
  return user && [user.tenant, user.id];
}
// #endregion

// #region tenant
/** All users and machines of a tenant share its keys: a retry may come from another of them. */
export function tenantAlone(context: ExecutionContext) {
  const { user } = context.switchToHttp().getRequest<GuardedRequest>();
  return user?.tenant;
}
// #endregion

// #region by-context
/** Each reads what the requests of its context have. */
export const scopeByContext = {
  http: tenantAndUser,
  rpc: (context: ExecutionContext) => context.switchToRpc().getData<Order>().tenant,
};
// #endregion

// #region object-id
/** MongoDB's ids are objects: this function makes a text of one, which no other id has. */
export function accountOf(context: ExecutionContext) {
  const { account } = context.switchToHttp().getRequest<{ account?: Account }>();
  return account?._id.toHexString();
}
// #endregion

interface Order {
  readonly tenant: string;
}

interface Account {
  readonly _id: { toHexString(): string };
}
