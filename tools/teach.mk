# What teachers and learners type (docs/how-to/add-a-lesson.md, docs/grading.md); the Makefile includes this. The tools
# build what they need with the settings given here.

# A shell for the commands of a lesson: LESSON=07. Their files go to $WORK; Open MPI may run as root.
lesson:
	@case "$$LESSON" in [0-9][0-9]) ;; *) echo 'which lesson? make lesson LESSON=07' >&2; exit 2 ;; esac; \
	[ -d lessons/$$LESSON-* ] || { echo "there is no lesson $$LESSON; ls lessons" >&2; exit 2; }; \
	export WORK=build/lessons/$$LESSON OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; mkdir -p "$$WORK"; \
	echo "a shell for lesson $$LESSON: files go to $$WORK; exit leaves it"; \
	unset LESSON MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES; bash || :

# One submission, or a folder: LESSON=03 FILE=my.c [EXERCISE=bucket] [FORMAT=json|junit|gradescope|classroom]
# [OUT=file]. Less than full marks is no error of make's; scripts ask tools/grade.
grade: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/grade --lesson "$$LESSON" --exercise "$$EXERCISE" --format "$$FORMAT" \
	    --out "$$OUT" -- "$$FILE" || [ $$? = 1 ]

# What an exercise begins with, into FILE: LESSON=17 EXERCISE=hunt-dp FILE=my/dp.c
starter:
	@BUILD=$(B) tools/mine --starter --lesson "$$LESSON" --exercise "$$EXERCISE" -- "$$FILE"

# build/mine/trivium: the program with FILE in place of what an exercise replaces, or with a published bug
# (PATCH=tests/museum/NN-name.patch), or with all files of a folder (MY=my), which it grades, and trains on 8 ranks
# (STEPS=20: the first 20 steps of the demonstration, of its 200)
mine: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/mine --lesson "$$LESSON" --exercise "$$EXERCISE" --patch "$$PATCH" \
	    --my "$$MY" $(if $(STEPS),--steps $(STEPS)) -- "$$FILE" || [ $$? = 1 ]

# Are references accepted, starters and planted mistakes rejected? [LESSON="03 05"]
check-exercises: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/check-exercises $(LESSON)

# The tree without the answers: LESSON="03 05" or all, OVER="01 02" (solutions that may be read), OUT=dir,
# PREVIOUS=dir: the handout before
handout:
	@tools/handout --out "$$OUT" --over "$$OVER" --previous "$$PREVIOUS" -- $(LESSON)

# "Which claim fails?": LESSON=03 NAME=ann OUT=dir writes patches and a sheet for a student; FILE=which.txt grades it
which: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/which --lesson "$$LESSON" --name "$$NAME" $(if $(FILE),--grade) \
	    -- "$${FILE:-$$OUT}" || [ $$? = 1 ]

# Numbers of one's own: LESSON=04 NAME=ann OUT=my/worksheet.txt writes the questions; FILE=my/worksheet.txt grades them
worksheet: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/worksheet --lesson "$$LESSON" --name "$$NAME" $(if $(FILE),--grade) \
	    -- "$${FILE:-$$OUT}" || [ $$? = 1 ]

# An examination: SEED=2026 [LESSON="03 04 17"] OUT=dir writes paper, key, two unseen hunts and a layout; BANK=bank.md
# writes all that it is drawn from
exam: deps
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/exam --seed "$$SEED" --lessons "$$LESSON" $(if $(BANK),--bank) \
	    -- "$${BANK:-$$OUT}"

# The four lines of a bug hunt: OUT=my/notes.txt writes the template, FILE=my/notes.txt looks at its form
notes:
	@tools/notes $(if $(FILE),,--new) -- "$${FILE:-$$OUT}" || [ $$? = 1 ]

# Slides of the lessons, an HTML file each: [LESSON="03 07"]
slides:
	@tools/install-deps slides
	@BUILD=$(B) tools/slides $(LESSON)

# Which submissions are nearly equal: DIR=folder [LESSON=03]
similar:
	@tools/similar --lessons "$$LESSON" -- "$$DIR"

# The zip for Gradescope: LESSON="03 05" or all, OUT=autograder.zip
autograder:
	@tools/autograder --out "$${OUT:-autograder.zip}" -- $(LESSON)

# Everybody's submissions, each in a sandbox (bubblewrap): DIR=folder [LESSON=03] [EXERCISE=bucket] [OUT=scores.csv]
# [JOBS=1] [DEADLINE="2026-12-01 18:00"] [TRUSTED=1] [REPORTS=folder [FORMAT=junit]]: a file for each student
grade-all: deps
	@$(if $(TRUSTED),true,tools/install-deps teach)
	@BUILD=$(B) BUILD_NAME=$(BUILD_NAME) tools/grade-all --lessons "$$LESSON" --exercise "$$EXERCISE" \
	    --out "$${OUT:-scores.csv}" $(if $(JOBS),--jobs $(JOBS)) $(if $(LIMIT),--limit $(LIMIT)) --deadline "$$DEADLINE" \
	    --reports "$$REPORTS" --format "$$FORMAT" $(if $(TRUSTED),--trusted) -- "$$DIR"

# From such tables to a class list: REQUIRED="00/arithmetic 01/gelu" TABLES="week1.csv week2.csv" [OUT=marks.csv]
# [DROP=N, the weakest that do not count: 1 of four and more required ones, else 0]
marks:
	@tools/marks --required "$$REQUIRED" --out "$${OUT:-marks.csv}" $(if $(DROP),--drop $(DROP)) -- $(TABLES)

.PHONY: lesson starter mine grade grade-all marks similar which worksheet exam notes slides handout autograder \
    check-exercises
