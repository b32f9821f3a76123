// What the login page is made of. Every part that is loaded later begins with this import (`build.mjs` adds it), so that all of it is one file and not a
// file for each set of parts that share something: over HTTP/1.1 a browser asks for six files at a time.
import './screens/login.tsx';
import './lib/download.ts';
import './lib/load.ts';
import './lib/phrase.ts';
import './lib/place.ts';
import './lib/prefs.ts';
import './lib/server.ts';
import './parts/why.tsx';
