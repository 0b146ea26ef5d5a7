"""Documentation that several modules share; `doc_fragment_plugins` in ansible.cfg names this folder."""
