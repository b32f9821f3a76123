// People and apps: entities, groups, login methods, and who is locked out.
import * as en from '../../en/screens/people.ts';
import { href, route } from '../../lib/router.ts';
import { Tabs } from '../../parts/ui.tsx';
import { Entities } from './entities.tsx';
import { Groups } from './groups.tsx';
import { Locked } from './locked.tsx';
import { Logins } from './logins.tsx';

const PARTS = [
  ['entities', en.entities],
  ['groups', en.groups],
  ['logins', en.loginMethods],
  ['locked', en.lockedOut],
] as const;

export function People() {
  const [, part = 'entities', ...rest] = route.value.path.split('/');
  const id = rest.join('/');
  return (
    <>
      <Tabs
        label={en.peopleAndApps}
        current={part}
        tabs={PARTS.map(([key, label]) => ({ key, label, href: href(`people/${key}/`) }))}
      />
      {part === 'groups' ? (
        <Groups id={id} />
      ) : part === 'logins' ? (
        <Logins mount={id} />
      ) : part === 'locked' ? (
        <Locked />
      ) : (
        <Entities id={id} />
      )}
    </>
  );
}
